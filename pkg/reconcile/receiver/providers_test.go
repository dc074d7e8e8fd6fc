package receiver

import (
	"net/http"
	"testing"
)

// security.md 22
func TestAuthentic(t *testing.T) {
	const key = "It's a Secret to Everybody"
	body := []byte("Hello, World!")
	// GitHub's own example:
	// https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries
	const documented = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	if !authentic("github", []byte(key), http.Header{"X-Hub-Signature-256": {documented}}, body) {
		t.Error("the documented signature is refused")
	}
	for provider := range credentialHeaders {
		good := sign(provider, key, body)
		if !authentic(provider, []byte(key), good, body) || !hasCredential(provider, good) || !hasAnyCredential(good) {
			t.Errorf("%s: a good request is refused", provider)
		}
		if authentic(provider, nil, sign(provider, "", body), body) {
			t.Errorf("%s: an empty key signs", provider)
		}
		if authentic(provider, []byte("other"), good, body) {
			t.Errorf("%s: another key signs", provider)
		}
		if authentic(provider, []byte(key), http.Header{}, body) || hasCredential(provider, http.Header{}) {
			t.Errorf("%s: a request without a proof is taken", provider)
		}
		if provider != "gitlab" && authentic(provider, []byte(key), good, []byte("Hello, World?")) {
			t.Errorf("%s: another body is taken", provider)
		}
		for other := range credentialHeaders {
			if other != provider && authentic(other, []byte(key), good, body) {
				t.Errorf("%s takes the proof of %s", other, provider)
			}
		}
		for name := range good {
			for _, bad := range []string{"sha256=", "sha256", "sha1=" + good.Get(name), good.Get(name) + "00", "sha256=zz", "Bearer", "Bearer ", "Basic " + key} {
				if authentic(provider, []byte(key), http.Header{name: {bad}}, body) {
					t.Errorf("%s takes %s: %q", provider, name, bad)
				}
			}
		}
	}
	if !authentic("generic", []byte(key), http.Header{"Authorization": {"Bearer " + key}}, nil) {
		t.Error("a bearer token is refused")
	}
	if authentic("generic", []byte(key), http.Header{"Authorization": {"Bearer " + key + "x"}, "X-Signature": {sign("generic", key, body).Get("X-Signature")}}, body) {
		t.Error("a wrong bearer token is made good by a signature")
	}
	if authentic("unknown", []byte(key), sign("github", key, body), body) {
		t.Error("an unknown provider signs")
	}
}
