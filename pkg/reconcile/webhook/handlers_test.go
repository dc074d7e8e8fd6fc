package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	kjson "sigs.k8s.io/json"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// decoding knows pools as far as that needs no cluster.
type decoding struct{ away error }

func (d decoding) CheckRequestedProfile(_ context.Context, md *machines.MachineDeployment) (bool, error) {
	if d.away != nil {
		return false, d.away
	}
	_, err := render.DecodePool(md)
	return err != nil, err
}

// review posts one to the server as an API server does.
func review(t testing.TB, h Handlers, path, version, operation string, object, old any) admissionv1.AdmissionReview {
	t.Helper()
	server, err := newServer(Options{Address: "127.0.0.1:1"}, h, nil)
	if err != nil {
		t.Fatal(err)
	}
	request := map[string]any{"uid": "u-1", "operation": operation}
	if object != nil {
		request["object"] = object
	}
	if old != nil {
		request["oldObject"] = old
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/" + version, "kind": "AdmissionReview", "request": request})
	if err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	res := httptest.NewRecorder()
	server.WebhookMux().ServeHTTP(res, req)
	var out admissionv1.AdmissionReview
	if err := json.Unmarshal(res.Body.Bytes(), &out); err != nil || out.Response == nil {
		t.Fatalf("%d, %v: %s", res.Code, err, res.Body)
	}
	if string(out.Response.UID) != "u-1" || out.APIVersion != "admission.k8s.io/"+version {
		t.Errorf("the answer is %s", res.Body)
	}
	return out
}

// TestReviews has the answers of operating-system-manager, except for units outside Flatcar, which are
// allowed here: for webhook configurations of operating-system-manager that lead here.
func TestReviews(t *testing.T) {
	profile := func(edits ...func(*osm.OperatingSystemProfile)) *osm.OperatingSystemProfile {
		osp := profileObject("n", "osp-a")
		for _, edit := range edits {
			edit(osp)
		}
		return osp
	}
	version := func(v string) func(*osm.OperatingSystemProfile) {
		return func(o *osm.OperatingSystemProfile) { o.Spec.Version = v }
	}
	units := func(o *osm.OperatingSystemProfile) { o.Spec.BootstrapConfig.Units = []osm.Unit{{Name: "a.service"}} }
	labelled := func(o *osm.OperatingSystemProfile) { o.Labels = map[string]string{"a": "b"} }
	called := func(name string) func(*osm.OperatingSystemProfile) {
		return func(o *osm.OperatingSystemProfile) { o.Name = name }
	}
	config, other, annotated := configObject("n", "c"), configObject("n", "c"), configObject("n", "c")
	other.Spec.OSVersion = "26.04"
	annotated.Annotations = map[string]string{"a": "b"}
	pool := map[string]any{"metadata": map[string]any{"name": "p", "namespace": "n"}, "spec": map[string]any{"template": map[string]any{"spec": map[string]any{
		"providerSpec": map[string]any{"value": map[string]any{"operatingSystem": "ubuntu"}}}}}}

	for name, c := range map[string]struct {
		path, operation string
		object, old     any
		code            int32 // 200 is allowed
		says            string
	}{
		"a profile":                               {PathProfile, "CREATE", profile(), nil, 200, ""},
		"a profile with units on Ubuntu":          {PathProfile, "CREATE", profile(units), nil, 200, ""},
		"a profile with another version":          {PathProfile, "UPDATE", profile(units, version("v1.0.1")), profile(), 200, ""},
		"a profile with an older version":         {PathProfile, "UPDATE", profile(version("v0.1.0")), profile(), 200, ""},
		"a profile with another label":            {PathProfile, "UPDATE", profile(labelled), profile(), 200, ""},
		"a profile without another version":       {PathProfile, "UPDATE", profile(units), profile(), 403, `immutable while spec.version is "v1.0.0"`},
		"a profile that is named after a version": {PathProfile, "UPDATE", profile(called("a-v1.0.0-b"), version("v2.0.0")), profile(called("a-v1.0.0-b"), version("v1.0.0+B")), 403, "named after version"},
		"a profile that is deleted":               {PathProfile, "DELETE", nil, profile(), 200, ""},
		"no profile":                              {PathProfile, "CREATE", map[string]any{"spec": "x"}, nil, 400, "decoding the OperatingSystemProfile"},
		"no profile before":                       {PathProfile, "UPDATE", profile(), map[string]any{"spec": "x"}, 400, "decoding the previous"},
		"a profile that is connected to":          {PathProfile, "CONNECT", profile(), nil, 400, `operation "CONNECT"`},

		"a configuration":                   {PathConfig, "CREATE", config, nil, 200, ""},
		"a configuration, annotated":        {PathConfig, "UPDATE", annotated, config, 200, ""},
		"a configuration with another spec": {PathConfig, "UPDATE", other, config, 403, "it is immutable"},
		"a configuration that is deleted":   {PathConfig, "DELETE", nil, config, 200, ""},
		"no configuration":                  {PathConfig, "UPDATE", map[string]any{"spec": 1}, config, 400, "decoding the OperatingSystemConfig"},

		"a pool":                         {PathDefault, "CREATE", pool, nil, 200, ""},
		"a pool that is deleted":         {PathDefault, "DELETE", nil, pool, 200, ""},
		"a pool that is connected to":    {PathDefault, "CONNECT", pool, nil, 400, `operation "CONNECT"`},
		"no pool":                        {PathDefault, "UPDATE", map[string]any{"metadata": 1}, pool, 400, "decoding the MachineDeployment"},
		"a pool without provider spec":   {PathDefault, "CREATE", map[string]any{"metadata": map[string]any{"name": "p"}}, nil, 500, "providerSpec.value: is missing"},
		"a pool whose spec is no object": {PathDefault, "CREATE", map[string]any{"spec": []any{}}, nil, 500, "spec: expected object, found array"},
	} {
		for _, v := range []string{"v1", "v1beta1"} {
			got := review(t, Handlers{Checker: render.NewEngine(), Pools: decoding{}}, c.path, v, c.operation, c.object, c.old).Response
			if got.Allowed != (c.code == 200) || got.Result.Code != c.code || !strings.Contains(got.Result.Message, c.says) {
				t.Errorf("%s, %s: allowed %t, %d %q, want %d %q", name, v, got.Allowed, got.Result.Code, got.Result.Message, c.code, c.says)
			}
		}
	}
}

// Requests that cannot be checked are admitted, also if unknown profiles are rejected.
func TestClusterIsAway(t *testing.T) {
	pool := map[string]any{"metadata": map[string]any{"name": "p", "annotations": map[string]any{api.AnnotationOSP: "x"}}}
	h := Handlers{Pools: decoding{errors.New("the API server has c4nary")}, DenyUnknownProfiles: true}
	got := review(t, h, PathValidate, "v1", "CREATE", pool, nil).Response
	if !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "could not check") || strings.Contains(fmt.Sprint(got), "c4nary") {
		t.Errorf("the answer is %+v", got)
	}
}

// Many problems result in a few warnings.
func TestManyWarnings(t *testing.T) {
	osp := profileObject("n", "osp-a")
	for range 40 {
		osp.Spec.BootstrapConfig.Files = append(osp.Spec.BootstrapConfig.Files, osm.File{Path: "/" + strings.Repeat("x", 3000), Content: osm.FileContent{Inline: &osm.FileContentInline{Data: "{{ .No }}\n"}}})
	}
	got := review(t, Handlers{Checker: render.NewEngine()}, PathProfile, "v1", "CREATE", osp, nil).Response
	if !got.Allowed || len(got.Warnings) != maxWarnings || !strings.Contains(got.Warnings[maxWarnings-1], "more problems") {
		t.Errorf("%d warnings, the last is %q", len(got.Warnings), got.Warnings[len(got.Warnings)-1])
	}
	for _, w := range got.Warnings {
		if len(w) > maxWarning || strings.Contains(w, "\n") {
			t.Errorf("%d bytes: %q", len(w), w)
		}
	}
}

// FuzzReview: no object causes a panic, a rejection has a reason, and only one annotation and
// one finalizer are patched (security.md 22).
func FuzzReview(f *testing.F) {
	for _, object := range []string{
		`{}`, `null`, `{"metadata":null,"spec":null}`, `{"metadata":{"annotations":null}}`, `{"spec":{"template":7}}`,
		`{"metadata":{"annotations":{"a":"b"},"deletionTimestamp":"2026-01-01T00:00:00Z"}}`,
		`{"metadata":{"annotations":{"a/~1":"b"}},"spec":{"template":{"spec":{"providerSpec":{"value":{"operatingSystem":"ubuntu"}}}}}}`,
		`{"metadata":{},"Metadata":{"annotations":{"k8c.io/operating-system-profile":"x"}},"spec":{"template":{"spec":{"providerSpec":{"value":{"operatingSystem":"rhel"}}}}}}`,
		`{"metadata":{"name":"p"},"spec":{"template":{"spec":{"providerSpec":{"value":{"cloudProvider":"anexia","operatingSystem":"flatcar","operatingSystemSpec":{"provisioningUtility":"cloud-init"}}}}}}}`,
		`{"spec":{"version":"v1.0.0","bootstrapConfig":{"files":[{"content":{"inline":{"data":"{{ .X }}"}}}]}}}`,
	} {
		for which := range uint8(4) {
			f.Add(which, "CREATE", []byte(object), []byte(nil))
			f.Add(which, "UPDATE", []byte(object), []byte(object))
		}
	}
	paths := []string{PathDefault, PathValidate, PathProfile, PathConfig}
	h := Handlers{Checker: render.NewEngine(), Pools: decoding{}}
	f.Fuzz(func(t *testing.T, which uint8, operation string, object, old []byte) {
		var sent struct {
			Metadata map[string]any `json:"metadata"`
		}
		if kjson.UnmarshalCaseSensitivePreserveInts(object, &sent) != nil || sent.Metadata == nil || len(old) > 0 && !json.Valid(old) {
			return // an API server sends objects that it has decoded
		}
		var before any
		if len(old) > 0 {
			before = json.RawMessage(old)
		}
		path := paths[int(which)%len(paths)]
		got := review(t, h, path, "v1", operation, json.RawMessage(object), before).Response
		if got.Result != nil && strings.Contains(got.Result.Message, "panic") {
			t.Fatalf("it panicked: %s", got.Result.Message)
		}
		if !got.Allowed && got.Result.Message == "" {
			t.Errorf("refused without a reason: %+v", got)
		}
		if len(got.Patch) == 0 {
			return
		}
		patch, err := jsonpatch.DecodePatch(got.Patch)
		if err != nil {
			t.Fatal(err)
		}
		after, err := patch.Apply(object)
		if err != nil {
			t.Fatalf("%s: %v", got.Patch, err)
		}
		var want, have map[string]any
		if json.Unmarshal(object, &want) != nil || json.Unmarshal(after, &have) != nil {
			t.Fatalf("%s is no object", after)
		}
		meta := have["metadata"].(map[string]any)
		annotations := meta["annotations"].(map[string]any)
		asked, _ := sent.Metadata["annotations"].(map[string]any)
		if osp, _ := annotations[api.AnnotationOSP].(string); osp != asked[api.AnnotationOSP] && !strings.HasPrefix(osp, "osp-") {
			t.Errorf("the profile is %q", osp)
		}
		if finalizers, _ := meta["finalizers"].([]any); operation == "CREATE" && !slices.Contains(finalizers, any(api.FinalizerPool)) {
			t.Errorf("the finalizers are %q", finalizers)
		}
		bare := func(o map[string]any) map[string]any {
			if m, ok := o["metadata"].(map[string]any); ok {
				finalizers, _ := m["finalizers"].([]any)
				m["finalizers"] = append([]any{}, slices.DeleteFunc(finalizers, func(f any) bool { return operation == "CREATE" && f == api.FinalizerPool })...)
				a, _ := m["annotations"].(map[string]any)
				if delete(a, api.AnnotationOSP); len(a) == 0 {
					delete(m, "annotations")
				}
			}
			return o
		}
		if diff := cmp.Diff(bare(want), bare(have)); path != PathDefault || diff != "" {
			t.Errorf("%s patched (-want +got):\n%s", path, diff)
		}
	})
}
