package render_test

import (
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/render"
)

func TestDownloadSettings(t *testing.T) {
	sum := strings.Repeat("0123456789abcdef", 4)
	for name, c := range map[string]struct {
		settings render.Settings
		want     string // part of the error, "" for none
	}{
		"a mirror and a digest":         {render.Settings{DownloadMirrors: map[string]string{"kubernetes": "https://u:p@mirror.example.com/k8s/"}, DownloadDigests: map[string]string{"crictl-v1.36.0-linux-amd64.tar.gz": sum}}, ""},
		"a publisher with a slash":      {render.Settings{DownloadMirrors: map[string]string{"a/b": "https://m"}}, `"a/b" is not a publisher's name`},
		"a mirror without scheme":       {render.Settings{DownloadMirrors: map[string]string{"docker": "mirror.example.com"}}, `mirror of "docker" is not an http`},
		"a mirror with a query":         {render.Settings{DownloadMirrors: map[string]string{"docker": "https://m/?a=b"}}, "has a query"},
		"a mirror that ends its quotes": {render.Settings{DownloadMirrors: map[string]string{"docker": "https://m/$(id)"}}, "percent-encoded"},
		"a file with a blank":           {render.Settings{DownloadDigests: map[string]string{"a b": sum}}, "is not the name of a downloaded file"},
		"a short digest":                {render.Settings{DownloadDigests: map[string]string{"a": "abc"}}, "is not a SHA-256 digest"},
		"a digest in capitals":          {render.Settings{DownloadDigests: map[string]string{"a": strings.ToUpper(sum)}}, "is not a SHA-256 digest"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.settings.Validate()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// TestDownloadMirrorCredentials hides the password of a mirror and puts it back.
func TestDownloadMirrorCredentials(t *testing.T) {
	in := sampleInput(t)
	in.Settings.DownloadMirrors = map[string]string{"kubernetes": "https://user:s3cret@mirror.example.com/k8s", "docker": "https://open.example.com"}
	redacted, credentials := in.ReplaceSecrets()
	if got := redacted.Settings.DownloadMirrors["kubernetes"]; got != "https://placeholder:placeholder@mirror.example.com/k8s" {
		t.Errorf("hidden as %q", got)
	}
	if got := redacted.Settings.DownloadMirrors["docker"]; got != "https://open.example.com" {
		t.Errorf("an open mirror became %q", got)
	}
	if strings.Contains(string(in.RedactedSettingsJSON()), "s3cret") {
		t.Error("the kept settings hold the password")
	}
	if got := redacted.WithCredentials(credentials).Settings.DownloadMirrors["kubernetes"]; got != in.Settings.DownloadMirrors["kubernetes"] {
		t.Errorf("put back as %q", got)
	}
}
