package downloads_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint/downloads"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// found returns the items of a script, one per line.
func found(files ...string) []string {
	n := &downloads.Node{System: osm.OperatingSystemUbuntu, Version: "24.04", Server: "https://api.example.com:6443"}
	stage := downloads.Stage{Name: "provisioning"}
	for i := 0; i < len(files); i += 2 {
		stage.Files = append(stage.Files, render.NodeFile{Path: files[i], Content: files[i+1]})
	}
	n.Stages = []downloads.Stage{stage}
	var out []string
	for _, i := range downloads.Find(n).Items {
		text := i.String()
		if i.Kind == downloads.KindUnresolved {
			text = "? " + text
		}
		if i.SHA256 != "" {
			text += " " + i.SHA256[:4]
		}
		if len(i.Architectures) > 0 {
			text += " " + strings.Join(i.Architectures, ",")
		}
		out = append(out, text)
	}
	return out
}

const sum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// TestFind: constant downloads are resolved, and all others are listed as unresolved.
func TestFind(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		want   []string
	}{
		"a constant": {"v=1.2\ncurl -fsSL -o /x https://a.example/$v/f", []string{"https://a.example/1.2/f"}},
		"a default":  {"v=${VERSION:-1.2}; : ${W:=3}; wget -qO- https://a.example/$v/$W", []string{"https://a.example/1.2/3"}},
		"an expansion": {`v=v1.36.2
base=https://a.example/; curl -O "${base%/}/${v#v}/${v%.*}.0/${v/36/35}"`, []string{"https://a.example/1.36.2/v1.36.0/v1.35.2"}},
		"a loop over literals":     {"for b in kubelet kubectl; do curl -O https://a.example/$b; done", []string{"https://a.example/kubectl", "https://a.example/kubelet"}},
		"a loop over braces":       {"for b in {a,b}{1..2}; do curl -O https://a.example/$b; done", []string{"https://a.example/a1", "https://a.example/a2", "https://a.example/b1", "https://a.example/b2"}},
		"a loop over an array":     {"l=(a b)\nl+=(c)\nfor b in \"${l[@]}\"; do curl https://a.example/$b; done", []string{"https://a.example/a", "https://a.example/b", "https://a.example/c"}},
		"a loop that is left":      {"for b in a b; do if curl https://a.example/$b; then break; fi; done\ncurl https://a.example/last-$b", []string{"https://a.example/a", "https://a.example/b", "https://a.example/last-a", "https://a.example/last-b"}},
		"a function":               {"get() { local u=$1; curl -o $2 \"$u\"; }\nget https://a.example/x /x\nget https://a.example/y /y", []string{"https://a.example/x", "https://a.example/y"}},
		"a function that gives up": {"f() { return 1; curl https://a.example/never; }\nf || curl https://a.example/else", []string{"https://a.example/else"}},
		"architectures": {"case $(uname -m) in x86_64) a=amd64 ;; aarch64) a=arm64 ;; *) exit 1 ;; esac\ncurl https://a.example/$a",
			[]string{"https://a.example/amd64 amd64", "https://a.example/arm64 arm64"}},
		"one architecture at a time": {"a=$(dpkg --print-architecture)\nb=$(uname -m)\ncurl https://a.example/$a-$b",
			[]string{"https://a.example/amd64-x86_64 amd64", "https://a.example/arm64-aarch64 arm64"}},
		"a condition that is known":     {"m=https://m.example\nif [[ $m == https://* && -n $m ]]; then curl $m/a; else curl $m/b; fi\n[ \"$m\" = x ] && curl $m/c", []string{"https://m.example/a"}},
		"both ways where it is not":     {"if [ -e /x ]; then u=a; else u=b; fi\ncurl https://a.example/$u", []string{"https://a.example/a", "https://a.example/b"}},
		"a regular expression":          {"u=https://me:pw@m.example/x\nif [[ $u =~ ^(https://)[^@]*@(.*)$ ]]; then u=${BASH_REMATCH[1]}${BASH_REMATCH[2]}; fi\ncurl $u", []string{"https://m.example/x"}},
		"a password is not told":        {"curl https://me:secret@m.example/x", []string{"https://m.example/x"}},
		"a here-document with a config": {"curl --config - <<<\"url = \\\"https://a.example/x\\\"\"", []string{"https://a.example/x"}},
		"what a function prints":        {"version() { case $1 in a) echo 1 ;; *) echo 2 ;; esac; }\ncurl https://a.example/$(version a)", []string{"https://a.example/1"}},
		"a digest":                      {"curl -o /tmp/x https://a.example/x\necho \"" + sum + "  /tmp/x\" | sha256sum -c -", []string{"https://a.example/x 0123"}},
		"a digest that must be the publisher's": {"curl -o /s https://a.example/x.sha256\ns=$(cut -c1-64 /s)\nwant=" + sum + "\nif [[ $want != \"$s\" ]]; then exit 1; fi\ncurl -o /x https://a.example/x\necho \"$s  /x\" | sha256sum --check",
			[]string{"https://a.example/x 0123", "https://a.example/x.sha256"}},
		"through other programs":      {"sudo -E timeout 60 env A=b curl -O https://a.example/x\nbash -c 'wget https://a.example/y'\neval \"curl https://a.example/z\"", []string{"https://a.example/x", "https://a.example/y", "https://a.example/z"}},
		"apt":                         {"export DEBIAN_FRONTEND=x\napt-get -y -o A=b install jq 'containerd.io=2.2*' curl/noble", []string{"package apt containerd.io 2.2*", "package apt curl", "package apt jq"}},
		"apt installs again":          {"apt-get install --reinstall \"$(cat broken)\" jq", []string{"package apt jq"}},
		"apt brings up to date":       {"apt-get update && apt-get -y dist-upgrade", []string{"package apt *"}},
		"yum":                         {"yum -y install jq containerd.io-2.2* https://a.example/x.rpm\ndnf --enablerepo extra install -y socat", []string{"https://a.example/x.rpm", "package yum containerd.io 2.2*", "package yum jq", "package yum socat"}},
		"a repository of apt":         {". /etc/os-release\necho \"deb [signed-by=/k] https://d.example/ubuntu $VERSION_CODENAME stable\" | tee /etc/apt/sources.list.d/d.list", []string{"repository apt https://d.example/ubuntu noble stable"}},
		"a repository of yum":         {"cat >/etc/yum.repos.d/d.repo <<END\n[d]\nbaseurl=https://d.example/9/\\$basearch/stable\nEND\n", []string{"repository yum https://d.example/9/aarch64/stable arm64", "repository yum https://d.example/9/x86_64/stable amd64"}},
		"images":                      {"ctr -n k8s.io images pull registry.example/a:1\ncrictl pull registry.example/b:2", []string{"image registry.example/a:1", "image registry.example/b:2"}},
		"the cluster, the machine":    {"curl https://api.example.com:6443/version\ncurl http://169.254.169.254/latest\ncurl http://localhost:1/healthz", nil},
		"a URL for another program":   {"helm-like install --from https://a.example/chart", []string{"https://a.example/chart"}},
		"a part that is not known":    {"curl https://a.example/$(hostname)/x", []string{"? https://a.example/${hostname}/x"}},
		"nothing that is known":       {"curl -o /x \"$URL\"", []string{"? ${URL}"}},
		"a list from elsewhere":       {"while read -r u; do curl \"$u\"; done </etc/urls", []string{"? ${u}"}},
		"a package that is not known": {"apt-get install -y \"linux-headers-$(uname -r)\"", []string{"? apt package linux-headers-${uname -r}"}},
		"a counter":                   {"i=0\nwhile [ $i -lt 3 ]; do curl https://a.example/$i; i=$((i+1)); done", []string{"? https://a.example/${i}"}},
		"an empty here-document":      {"cat <<END\nEND\ncurl https://a.example/x", []string{"https://a.example/x"}},
		"a pattern that is not UTF-8": {"x=$(hostname)\ncurl https://a.example/${x#$(printf %c \"$x\")}", []string{"? https://a.example/${x#$"}},
		"no script":                   {"if then fi (", []string{"? the downloads of /opt/x"}},
		"an unknown value is none of several patterns":     {"x=$(hostname)\ncase $x in a | b) curl https://a.example/$x ;; esac", []string{"? https://a.example/${x}"}},
		"an unknown value is not the text of a glob":       {"x=$(hostname)\ncase $x in a*) curl https://a.example/$x ;; esac", []string{"? https://a.example/${x}"}},
		"an unknown value is not an unknown pattern":       {"x=$(hostname)\ncase $x in $(cat /y)) curl https://a.example/$x ;; esac", []string{"? https://a.example/${x}"}},
		"a value with an unknown part is not the pattern":  {"x=v-$(hostname)\ncase $x in v-a) curl https://a.example/$x ;; esac", []string{"? https://a.example/v-${hostname}"}},
		"an unknown value is the one pattern that it has":  {"x=$(hostname)\ncase $x in a) curl https://a.example/$x ;; esac", []string{"https://a.example/a"}},
		"a counter in an arithmetic command stays unknown": {"n=0\nwhile read -r u; do ((n += 1)); curl https://a.example/$n; done </etc/urls", []string{"? https://a.example/${n}"}},
		"a short option without its value ends curl":       {"curl https://a.example/x -o", []string{"https://a.example/x"}},
		"a long option without its value ends curl":        {"curl https://a.example/x --output", []string{"https://a.example/x"}},
		"echo takes each spelling of its options":          {"curl https://a.example/$(echo -n a)$(echo -e b)$(echo -ne c)$(echo -en d)", []string{"https://a.example/abcd"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := found("/opt/x", "#!/bin/bash\n"+c.script)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestFindGivesUp: a script that exceeds a limit is unresolved, and not omitted.
func TestFindGivesUp(t *testing.T) {
	for name, script := range map[string]string{
		"more ways than are followed":   ways(10) + "curl https://a.example/$x",
		"a length of what is unknown":   "curl https://a.example/${#HOME_DIR}",
		"more steps than are followed":  strings.Repeat("for i in 1 2 3 4 5 6 7 8 9; do ", 7) + "true; " + strings.Repeat("done; ", 7) + "curl https://a.example/x",
		"more braces than are expanded": "curl https://a.example/{1..999999999}",
	} {
		got := found("/opt/x", "#!/bin/bash\n"+script)
		if len(got) == 0 || slices.ContainsFunc(got, func(s string) bool { return !strings.HasPrefix(s, "? ") }) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// ways returns a script with 2^n paths, each with a different value of x.
func ways(n int) string {
	var b strings.Builder
	for i := range n {
		digit := string(rune('0' + i))
		b.WriteString("if [ -e /" + digit + " ]; then x=${x}" + digit + "; fi\n")
	}
	return "x=\n" + b.String()
}

// TestFindFiles covers scripts that run scripts, units, manifests, and programs in other
// languages.
func TestFindFiles(t *testing.T) {
	got := found(
		"/opt/bin/get", "#!/bin/sh\ncurl -o \"$2\" \"$1\"\n",
		"/opt/bin/again", "#!/bin/sh\nuntil \"$@\"; do sleep 1; done\n",
		"/opt/bin/setup", "#!/bin/sh\n. /opt/lib.sh\n/opt/bin/get $base/one /one\n/opt/bin/get $base/two /two\n",
		"/opt/lib.sh", "base=https://a.example\n",
		"/etc/systemd/system/setup.service", "[Unit]\nDocumentation=https://docs.example\n[Service]\nExecStartPre=-/usr/bin/curl \\\n  https://a.example/pre\nExecStart=/opt/bin/again /opt/bin/setup\n",
		"/etc/kubernetes/manifests/proxy.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - image: registry.example/proxy:1\n",
		"/etc/containerd/config.toml", "version = 2\n[plugins.x]\nsandbox_image = \"registry.example/pause:3\"\n",
		"/etc/yum.repos.d/x.repo", "[x]\nbaseurl = https://r.example/x/\n",
		"/opt/tool.py", "#!/usr/bin/env python3\nurlopen('https://a.example/py')\n",
		"/etc/motd", "see https://a.example/help\n",
	)
	want := []string{
		"https://a.example/one", "https://a.example/pre", "https://a.example/two", "repository yum https://r.example/x",
		"image registry.example/pause:3", "image registry.example/proxy:1", "? https://a.example/py",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSandbox: a default image that the profile does not name is pulled nevertheless.
func TestSandbox(t *testing.T) {
	got := found("/etc/containerd/config.toml", "version = 3\n")
	if diff := cmp.Diff([]string{"? the sandbox (pause) image"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestSandboxPlace: the image is reported for the stage that writes the file that containerd reads last.
func TestSandboxPlace(t *testing.T) {
	config := render.NodeFile{Path: "/etc/containerd/config.toml", Content: "version = 3\n"}
	for name, c := range map[string]struct {
		bootstrap, provisioning []render.NodeFile
		want                    string
	}{
		"bootstrap alone writes it":    {[]render.NodeFile{config}, nil, "bootstrap"},
		"provisioning alone writes it": {nil, []render.NodeFile{config}, "provisioning"},
		"both write it":                {[]render.NodeFile{config}, []render.NodeFile{config}, "provisioning"},
	} {
		n := &downloads.Node{Stages: []downloads.Stage{{Name: "bootstrap", Files: c.bootstrap}, {Name: "provisioning", Files: c.provisioning}}}
		items := downloads.Find(n).Items
		if len(items) != 1 || len(items[0].Positions) != 1 || items[0].Positions[0].Stage != c.want {
			t.Errorf("%s: got %+v, want a place in stage %s", name, items, c.want)
		}
	}
}

// TestPlaces: the place of an item is the line to change, which is the call and not the
// inside of a shared download function.
func TestPlaces(t *testing.T) {
	n := &downloads.Node{Stages: []downloads.Stage{{Name: "bootstrap", Files: []render.NodeFile{
		{Path: "/opt/x", Content: "#!/bin/bash\nget() {\n  curl \"$1\"\n}\n\nif true; then\n  get https://a.example/x\nfi\n"},
	}}}}
	items := downloads.Find(n).Items
	if len(items) != 1 || len(items[0].Positions) != 1 || items[0].Positions[0] != (downloads.Position{Stage: "bootstrap", File: "/opt/x", FileLine: 7}) {
		t.Errorf("got %+v", items)
	}
}

// TestMerge: an item that several pools download is listed once, with all pools.
func TestMerge(t *testing.T) {
	list := func(pool, arch string) downloads.List {
		return downloads.List{Items: []downloads.Item{{Kind: downloads.KindURL, Name: "https://a.example/x", Pools: []string{pool}, Architectures: []string{arch}}}}
	}
	got := downloads.Merge(list("b/b", "amd64"), list("a/a", "amd64")).Items
	if len(got) != 1 || !slices.Equal(got[0].Pools, []string{"a/a", "b/b"}) || !slices.Equal(got[0].Architectures, []string{"amd64"}) {
		t.Errorf("got %+v", got)
	}
}

// FuzzFind: for every input the analysis returns in a short time.
func FuzzFind(f *testing.F) {
	for _, s := range []string{
		"x=$x$x$x", "f() { f; }; f", "while true; do curl $x; done", "echo {1..999999999}", "printf %999999999d 1", "curl ${x:0:1}${x//a/bb}",
		"case $x in *) ;; esac", "a=(1 2); a[1]=3; echo ${a[@]:1}", "cat <<E\n$(curl https://a.example)\nE", "((x++)); let y=2**70", "[[ $x =~ ( ]]", "exec 3>&1; $(`curl a.example`)",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		n := &downloads.Node{Stages: []downloads.Stage{{Name: "bootstrap", Files: []render.NodeFile{{Path: "/x", Content: "#!/bin/bash\n" + script}}}}}
		for _, item := range downloads.Find(n).Items {
			if item.Name == "" || len(item.Positions) == 0 || strings.ContainsAny(item.Name, "\uE000\uE001\uE002") && !strings.ContainsAny(script, "\uE000\uE001\uE002") {
				t.Errorf("%+v", item)
			}
		}
	})
}
