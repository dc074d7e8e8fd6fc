package api_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// gitSource is the least that makes a ProfileSource.
const gitSource = `
apiVersion: gitops.k8c.io/v1alpha1
kind: ProfileSource
spec:
  git: {url: "https://git.example.com/platform/osps.git"}
`

// TestSourceAdmission shows what is refused before any controller sees it.
// security.md 5, 8 (addresses), 12 (durations), 13 (paths), 14 (credentials in an
// address).
func TestSourceAdmission(t *testing.T) {
	c := cluster.Shared(t)
	cl := c.Client(t)
	ns := c.Namespace(t)

	good := placed(parseObject(t, gitSource), ns, "good")
	if err := cl.Create(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	before := good.DeepCopy()

	const url, windows = "spec.git.url", "spec.rollout.maintenanceWindows"
	window := func(schedule, duration string, applies ...any) []any {
		return []any{map[string]any{"schedule": schedule, "duration": duration, "timeZone": "Europe/Berlin", "applies": append([]any{}, applies...)}}
	}
	for name, tc := range map[string]struct {
		path  string
		value any
		words string // of the message; none: accepted
	}{
		"https":                                {url, "https://git.example.com/platform/osps.git", ""},
		"https with a port":                    {url, "https://git.example.com:8443/osps.git", ""},
		"https with an IPv6 address":           {url, "https://[2001:db8::1]/osps.git", ""},
		"https with an IPv6 address and port":  {url, "https://[2001:db8::1]:8443/osps.git", ""},
		"https with encoded characters":        {url, "https://dev.azure.com/org/My%20Project/_git/osps", ""},
		"https with a user's folder":           {url, "https://git.example.com/~user/osps.git", ""},
		"http, which the controller decides":   {url, "http://git.example.com/osps.git", ""},
		"ssh":                                  {url, "ssh://git@git.example.com/osps.git", ""},
		"ssh with a port":                      {url, "ssh://git@git.example.com:2222/org/osps.git", ""},
		"ssh with an IPv6 address":             {url, "ssh://git@[2001:db8::1]:2222/org/osps.git", ""},
		"ssh without a user":                   {url, "ssh://git.example.com/osps.git", ""},
		"scp form":                             {url, "git@github.com:org/repo.git", ""},
		"scp form with an absolute path":       {url, "git@git.example.com:/srv/git/repo.git", ""},
		"a file":                               {url, "file:///srv/git/osps.git", "spec.git.url https"},
		"a file on a host":                     {url, "file://localhost/srv/osps.git", "spec.git.url https"},
		"a bare path":                          {url, "/etc", "spec.git.url https"},
		"a relative path":                      {url, "../osps.git", "spec.git.url https"},
		"a command":                            {url, "ext::sh -c touch% /tmp/x", "spec.git.url https"},
		"a command in scp form":                {url, "ext::sh@host:x", "spec.git.url https"},
		"the git protocol":                     {url, "git://git.example.com/osps.git", "spec.git.url https"},
		"ftp":                                  {url, "ftp://git.example.com/osps.git", "spec.git.url https"},
		"a scheme in upper case":               {url, "FILE:///etc", "spec.git.url https"},
		"a blank inside":                       {url, "https://git.example.com/a b.git", "spec.git.url https"},
		"a blank at the end":                   {url, "https://git.example.com/a.git ", "spec.git.url https"},
		"a line break":                         {url, "https://git.example.com/a.git\nhttps://b", "spec.git.url https"},
		"a line break at the end":              {url, "https://git.example.com/a.git\n", "spec.git.url https"},
		"a NUL":                                {url, "https://git.example.com/a\x00.git", "spec.git.url https"},
		"a vertical tab":                       {url, "https://git.example.com/a\v.git", "spec.git.url https"},
		"a double quote":                       {url, `https://git.example.com/a".git`, "spec.git.url https"},
		"a single quote":                       {url, `ssh://git@git.example.com/a'.git`, "spec.git.url https"},
		"a backquote":                          {url, "ssh://git@git.example.com/a`id`.git", "spec.git.url https"},
		"a dollar sign":                        {url, "ssh://git@git.example.com/$(id).git", "spec.git.url https"},
		"a backslash":                          {url, `https:\\git.example.com\a.git`, "spec.git.url https"},
		"an option":                            {url, "--upload-pack=touch /tmp/x", "spec.git.url https"},
		"an option without blanks":             {url, "--upload-pack=id", "spec.git.url https"},
		"an option for a path":                 {url, "git@git.example.com:--upload-pack=id", "spec.git.url https"},
		"an option for a host":                 {url, "ssh://-oProxyCommand=id/osps.git", "spec.git.url https"},
		"an option for a host behind a user":   {url, "git@-oProxyCommand:osps.git", "spec.git.url https"},
		"an option for a user":                 {url, "ssh://-l@git.example.com/osps.git", "spec.git.url https"},
		"a password in https":                  {url, "https://user:canary@git.example.com/osps.git", "spec.git.url password"},
		"a numeric password in https":          {url, "https://canary:1234@git.example.com/osps.git", "spec.git.url password"},
		"a token in https":                     {url, "https://canary@git.example.com/osps.git", "spec.git.url password"},
		"a password in ssh":                    {url, "ssh://git:canary@git.example.com/osps.git", "spec.git.url password"},
		"a token in a query":                   {url, "https://git.example.com/osps.git?token=canary", "spec.git.url query"},
		"a fragment":                           {url, "https://git.example.com/osps.git#canary", "spec.git.url fragment"},
		"no host":                              {url, "https:///osps.git", "spec.git.url https"},
		"no path":                              {url, "https://git.example.com", "spec.git.url https"},
		"an address of nothing":                {url, "", "spec.git.url"},
		"an address without end":               {url, "https://git.example.com/" + strings.Repeat("a", 2048), "spec.git.url"},
		"no address":                           {url, nil, "spec.git.url"},
		"an address that is no text":           {url, int64(1), "spec.git.url"},
		"a path of two folders":                {"spec.path", "clusters/prod", ""},
		"a path with dots in names":            {"spec.path", "./v1..2/..a/b..", ""},
		"the root, said twice":                 {"spec.path", "", ""},
		"a path that leaves":                   {"spec.path", "../x", "spec.path '..'"},
		"a path that leaves and returns":       {"spec.path", "a/../b", "spec.path '..'"},
		"a path that ends above":               {"spec.path", "a/..", "spec.path '..'"},
		"nothing but above":                    {"spec.path", "..", "spec.path '..'"},
		"an absolute path":                     {"spec.path", "/abs", "spec.path relative"},
		"a path with backslashes":              {"spec.path", `a\..\b`, "spec.path slashes"},
		"a path without end":                   {"spec.path", strings.Repeat("a/", 600), "spec.path"},
		"minutes":                              {"spec.interval", "5m", ""},
		"hours, minutes and half seconds":      {"spec.interval", "1h30m0.5s", ""},
		"the shortest":                         {"spec.interval", "1s", ""},
		"the longest":                          {"spec.interval", "720h", ""},
		"days":                                 {"spec.interval", "5d", "spec.interval"},
		"a negative duration":                  {"spec.interval", "-1m", "spec.interval"},
		"a number without a unit":              {"spec.interval", "1", "spec.interval"},
		"a number that is no text":             {"spec.interval", int64(60), "spec.interval"},
		"a huge duration":                      {"spec.interval", "99999999999h", "spec.interval"},
		"a duration that overflows":            {"spec.interval", "9999999999999999999999999999h", "spec.interval"},
		"one second too long":                  {"spec.interval", "720h1s", "spec.interval 720h"},
		"no time":                              {"spec.interval", "0s", "spec.interval 1s"},
		"no time, with a fraction":             {"spec.interval", "0.999s", "spec.interval 1s"},
		"an empty duration":                    {"spec.interval", "", "spec.interval"},
		"blanks in a duration":                 {"spec.interval", " 5m", "spec.interval"},
		"a line break behind a duration":       {"spec.interval", "5m\n", "spec.interval"},
		"a unit in another alphabet":           {"spec.interval", "5µs", "spec.interval"},
		"days between retries":                 {"spec.retryInterval", "5d", "spec.retryInterval"},
		"no time between retries":              {"spec.retryInterval", "0s", "spec.retryInterval 1s"},
		"a huge time between retries":          {"spec.retryInterval", "99999999999h", "spec.retryInterval"},
		"a timeout":                            {"spec.git.timeout", "2m", ""},
		"a negative timeout":                   {"spec.git.timeout", "-1m", "spec.git.timeout"},
		"no timeout":                           {"spec.git.timeout", "0s", "spec.git.timeout 1s"},
		"a huge timeout":                       {"spec.git.timeout", "99999999999h", "spec.git.timeout"},
		"a window":                             {"spec.rollout", map[string]any{"gate": "Waves", "window": "10m"}, ""},
		"a window of days":                     {"spec.rollout", map[string]any{"window": "5d"}, "spec.rollout.window"},
		"a huge window":                        {"spec.rollout", map[string]any{"window": "99999999999h"}, "spec.rollout.window"},
		"a gate nobody has":                    {"spec.rollout", map[string]any{"gate": "Canary"}, "spec.rollout.gate"},
		"no pool at a time":                    {"spec.rollout", map[string]any{"maxConcurrent": int64(0)}, "spec.rollout.maxConcurrent"},
		"too many pools at a time":             {"spec.rollout", map[string]any{"maxConcurrent": int64(10001)}, "spec.rollout.maxConcurrent"},
		"a percentage":                         {"spec.rollout", map[string]any{"maxConcurrent": "10%"}, ""},
		"all of them":                          {"spec.rollout", map[string]any{"maxConcurrent": "100%"}, ""},
		"no percentage":                        {"spec.rollout", map[string]any{"maxConcurrent": "0%"}, "spec.rollout.maxConcurrent percentage"},
		"more than all":                        {"spec.rollout", map[string]any{"maxConcurrent": "101%"}, "spec.rollout.maxConcurrent percentage"},
		"a number that is text":                {"spec.rollout", map[string]any{"maxConcurrent": "3"}, "spec.rollout.maxConcurrent percentage"},
		"a maintenance window":                 {windows, window("0 22 * * 1-4", "6h", "Replace", "Waves"), ""},
		"an invalid schedule, for a condition": {windows, window("0 0 30 2 *", "5m", "Replace"), ""},
		"a short maintenance window":           {windows, window("0 22 * * *", "4m59s", "Replace"), "spec.rollout.maintenanceWindows[0].duration between 5m and 168h"},
		"a long maintenance window":            {windows, window("0 22 * * *", "168h1s", "Replace"), "spec.rollout.maintenanceWindows[0].duration between 5m and 168h"},
		"a maintenance window of days":         {windows, window("0 22 * * *", "1d", "Replace"), "spec.rollout.maintenanceWindows[0].duration"},
		"a maintenance window for nothing":     {windows, window("0 22 * * *", "1h"), "spec.rollout.maintenanceWindows[0].applies"},
		"a maintenance window for the unknown": {windows, window("0 22 * * *", "1h", "Boot"), "spec.rollout.maintenanceWindows[0].applies[0]"},
		"a maintenance window without a start": {windows, window("", "1h", "Replace"), "spec.rollout.maintenanceWindows[0].schedule"},
		"twenty maintenance windows":           {windows, slices.Repeat(window("0 22 * * *", "1h", "Replace"), 20), ""},
		"more than twenty":                     {windows, slices.Repeat(window("0 22 * * *", "1h", "Replace"), 21), "spec.rollout.maintenanceWindows at most 20"},
		"a branch":                             {"spec.git.ref", map[string]any{"branch": "release/1.x"}, ""},
		"a commit":                             {"spec.git.ref", map[string]any{"commit": strings.Repeat("0a", 20)}, ""},
		"a reference by name":                  {"spec.git.ref", map[string]any{"name": "refs/pull/420/head"}, ""},
		"a range of tags":                      {"spec.git.ref", map[string]any{"semver": ">=1.0.0 <2.0.0"}, ""},
		"no reference: branch main":            {"spec.git.ref", map[string]any{}, ""},
		"two references":                       {"spec.git.ref", map[string]any{"branch": "main", "tag": "v1"}, "spec.git.ref at most one"},
		"all references":                       {"spec.git.ref", map[string]any{"branch": "a", "tag": "b", "semver": "*", "name": "refs/x", "commit": strings.Repeat("0a", 20)}, "spec.git.ref at most one"},
		"a short commit":                       {"spec.git.ref", map[string]any{"commit": "0a0a0a0"}, "spec.git.ref.commit"},
		"a commit in upper case":               {"spec.git.ref", map[string]any{"commit": strings.Repeat("0A", 20)}, "spec.git.ref.commit"},
		"an empty branch":                      {"spec.git.ref", map[string]any{"branch": ""}, "spec.git.ref.branch"},
		"a Flux source":                        {"spec", map[string]any{"sourceRef": map[string]any{"kind": "OCIRepository", "name": "osps"}}, ""},
		"a directory":                          {"spec", map[string]any{"directory": map[string]any{"path": "/srv/profiles"}}, ""},
		"the built-in profiles":                {"spec", map[string]any{"builtin": map[string]any{}}, ""},
		"none of the four":                     {"spec", map[string]any{"interval": "1m"}, "spec exactly one"},
		"an empty spec":                        {"spec", map[string]any{}, "spec exactly one"},
		"two of the four":                      {"spec.builtin", map[string]any{}, "spec exactly one"},
		"two others of the four":               {"spec.sourceRef", map[string]any{"kind": "Bucket", "name": "b"}, "spec exactly one"},
		"three of the four":                    {"spec", map[string]any{"builtin": map[string]any{}, "directory": map[string]any{"path": "a"}, "sourceRef": map[string]any{"kind": "Bucket", "name": "b"}}, "spec exactly one"},
		"a Flux source of an unknown kind":     {"spec", map[string]any{"sourceRef": map[string]any{"kind": "HelmRepository", "name": "b"}}, "spec.sourceRef.kind"},
		"a Flux source without a name":         {"spec", map[string]any{"sourceRef": map[string]any{"kind": "Bucket"}}, "spec.sourceRef.name"},
		"a directory that leaves":              {"spec", map[string]any{"directory": map[string]any{"path": "/srv/../etc"}}, "spec.directory.path '..'"},
		"a directory of nothing":               {"spec", map[string]any{"directory": map[string]any{"path": ""}}, "spec.directory.path"},
		"a rewrite handled in no way":          {"spec.git.onRewrite", "Ignore", "spec.git.onRewrite"},
		"signatures of nothing":                {"spec.git.verify", map[string]any{"mode": "Commits", "secretRef": map[string]any{"name": "a"}}, "spec.git.verify.mode"},
		"signatures without keys":              {"spec.git.verify", map[string]any{}, "spec.git.verify.secretRef"},
		"a webhook of an unknown host":         {"spec.webhook", map[string]any{"provider": "sourceforge", "secretRef": map[string]any{"name": "a"}}, "spec.webhook.provider"},
		"a webhook without a key":              {"spec.webhook", map[string]any{"provider": "github"}, "spec.webhook.secretRef"},
		"no history":                           {"spec.historyLimit", int64(0), ""},
		"a negative history":                   {"spec.historyLimit", int64(-1), "spec.historyLimit"},
		"a history without end":                {"spec.historyLimit", int64(1001), "spec.historyLimit"},
		"patterns to ignore without end":       {"spec.ignore", strings.Repeat("a\n", 9000), "spec.ignore"},
		"a name that is a label value":         {"metadata.name", strings.Repeat("a", 63), ""},
		"a name too long for a label":          {"metadata.name", strings.Repeat("a", 64), "metadata.name at most 63 characters"},
		"a field nobody reads, which is lost":  {"spec.git.branch", "main", ""},
		"an annotation that asks for a look":   {"metadata.annotations", map[string]any{"reconcile.fluxcd.io/requestedAt": "now"}, ""},
		"an option for the branch, mere text":  {"spec.git.ref", map[string]any{"branch": "--upload-pack=id"}, ""},
		"a path with a blank, which is a name": {"spec.path", "my profiles", ""},
	} {
		t.Run(name, func(t *testing.T) {
			source := placed(parseObject(t, gitSource), ns, objectName(name))
			set(t, source, tc.path, tc.value)
			err := cl.Create(t.Context(), source)
			if tc.words == "" {
				if err != nil {
					t.Errorf("it was refused: %v", err)
				}
				return
			}
			field, rest, _ := strings.Cut(tc.words, " ")
			wantRefused(t, err, field, rest)
			// The message becomes part of the status of the applying controller, so it must not
			// repeat a credential (security.md 14).
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("the message repeats a credential: %v", err)
			}
			if err := cl.Get(t.Context(), client.ObjectKeyFromObject(source), source.DeepCopy()); client.IgnoreNotFound(err) != nil || err == nil {
				t.Errorf("getting what was refused: %v, want not found", err)
			}
			// A refused update does not change the object.
			bad := before.DeepCopy()
			set(t, bad, tc.path, tc.value)
			if bad.GetName() == before.GetName() {
				wantRefused(t, cl.Update(t.Context(), bad), field, rest)
			}
		})
	}

	t.Run("what was refused leaves the others as they are", func(t *testing.T) {
		if err := cl.Get(t.Context(), client.ObjectKeyFromObject(good), good); err != nil {
			t.Fatal(err)
		}
		if good.GetResourceVersion() != before.GetResourceVersion() {
			t.Errorf("the good source was written meanwhile: %v", good.Object)
		}
		// Every stored one decodes: a single bad duration once broke the whole list
		// for its controller (CVE-2022-39272).
		var list api.ProfileSourceList
		if err := cl.List(t.Context(), &list, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) < 30 {
			t.Errorf("listed %d sources, fewer than were accepted", len(list.Items))
		}
	})
}

func TestSourceDefaults(t *testing.T) {
	c := cluster.Shared(t)
	cl := c.Client(t)
	source := placed(parseObject(t, gitSource), c.Namespace(t), "defaults")
	if err := cl.Create(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"git": map[string]any{
			"url":       "https://git.example.com/platform/osps.git",
			"onRewrite": "Accept",
			"timeout":   "60s",
		},
		"interval":      "1m",
		"retryInterval": "30s",
		"prune":         true,
		"historyLimit":  int64(10),
	}
	for _, difference := range differences("spec", want, source.Object["spec"], nil) {
		t.Error(difference)
	}
	// Before the first reconciliation kstatus reports "in progress".
	if n, _, _ := unstructured.NestedInt64(source.Object, "status", "observedGeneration"); n != -1 {
		t.Errorf("observedGeneration is %d, want -1", n)
	}
}

// TestPreviousMaxConcurrent: a number that was stored while the schema had an integer is read,
// and updated, by the present schema.
func TestPreviousMaxConcurrent(t *testing.T) {
	c := cluster.Shared(t)
	cl := c.Client(t)
	crd := readObject(t, root+"/deploy/crds/gitops.k8c.io_profilesources.yaml")
	apply := func(schema map[string]any) {
		t.Helper()
		version := crd.DeepCopy()
		if schema != nil {
			at := version.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
			if err := unstructured.SetNestedMap(at, schema, "schema", "openAPIV3Schema", "properties", "spec", "properties", "rollout", "properties", "maxConcurrent"); err != nil {
				t.Fatal(err)
			}
		}
		if err := cl.Patch(context.WithoutCancel(t.Context()), version, client.Merge); err != nil {
			t.Fatal(err)
		}
	}
	// A definition is in force a moment after it is written: until a text is refused, or not.
	text := placed(parseObject(t, gitSource), c.Namespace(t), "text")
	set(t, text, "spec.rollout", map[string]any{"maxConcurrent": "10%"})
	inForce := func(refused bool) {
		t.Helper()
		testenv.Await(t, time.Minute, "the definition is in force", func() error {
			err := cl.Create(t.Context(), text.DeepCopy(), client.DryRunAll)
			if !refused {
				return err
			}
			if err == nil {
				return errors.New("a text is accepted")
			}
			return nil
		})
	}
	apply(map[string]any{"type": "integer", "format": "int32", "minimum": int64(1), "maximum": int64(10000), "default": int64(1), "anyOf": nil, "x-kubernetes-int-or-string": nil, "x-kubernetes-validations": nil})
	t.Cleanup(func() { apply(nil) })
	inForce(true)
	source := placed(parseObject(t, gitSource), text.GetNamespace(), "previous")
	set(t, source, "spec.rollout", map[string]any{"maxConcurrent": int64(7)})
	if err := cl.Create(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	apply(nil)
	inForce(false)
	var ps api.ProfileSource
	if err := cl.Get(t.Context(), client.ObjectKeyFromObject(source), &ps); err != nil {
		t.Fatal(err)
	}
	if got := ps.Spec.Rollout.MaxConcurrent; got == nil || *got != intstr.FromInt32(7) {
		t.Errorf("it is read as %v", got)
	}
	ps.Labels = map[string]string{"any": "other"}
	if err := cl.Update(t.Context(), &ps); err != nil {
		t.Errorf("it cannot be updated: %v", err)
	}
	ps.Spec.Rollout.MaxConcurrent = new(intstr.FromString("25%"))
	if err := cl.Update(t.Context(), &ps); err != nil {
		t.Errorf("it cannot become a percentage: %v", err)
	}
}

// TestSourceStatus writes a status as the controller does.
func TestSourceStatus(t *testing.T) {
	c := cluster.Shared(t)
	cl := c.Client(t)
	source := placed(parseObject(t, gitSource), c.Namespace(t), "status")
	if err := cl.Create(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	status := map[string]any{
		"observedGeneration":     int64(1),
		"lastHandledReconcileAt": "now",
		"lastAttemptedRevision":  "main@sha1:" + strings.Repeat("0a", 20),
		"revision":               "main@sha1:" + strings.Repeat("0b", 20),
		"conditions": []any{map[string]any{
			"type": "Ready", "status": "False", "reason": "ProfilesInvalid", "message": "profiles/a.yaml:3: ...",
			"lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": int64(1),
		}},
		"profiles": []any{map[string]any{
			"name": "osp-ubuntu", "version": "v1.9.0", "object": "osp-ubuntu-v1.9.0", "path": "profiles/a.yaml",
			"commit": strings.Repeat("0a", 20), "selectedBy": strings.Repeat("0b", 20), "digest": "v1:sha256:0", "removed": false,
		}},
	}
	set(t, source, "status", status)
	if err := cl.Status().Update(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	if err := cl.Get(t.Context(), client.ObjectKeyFromObject(source), source); err != nil {
		t.Fatal(err)
	}
	for _, difference := range differences("status", status, source.Object["status"], nil) {
		t.Error(difference)
	}

	entries := status["profiles"].([]any)
	set(t, source, "status.profiles", []any{entries[0], entries[0]})
	wantRefused(t, cl.Status().Update(t.Context(), source), "status.profiles[1]", "Duplicate")
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// objectName makes an object's name of a test case's.
func objectName(text string) string {
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(text), "-"), "-")
	return strings.Trim(name[:min(len(name), 60)], "-")
}

func scheme(t *testing.T) *k8sruntime.Scheme {
	t.Helper()
	s, err := cluster.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	return s
}
