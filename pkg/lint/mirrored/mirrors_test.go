package mirrored_test

import (
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/lint/downloads"
	"github.com/osm-gitops/osm-gitops/pkg/lint/mirrored"
)

const sum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestMissing(t *testing.T) {
	url := downloads.Item{Kind: downloads.KindURL, Name: "https://a.example/v1/x", SHA256: sum}
	pkg := downloads.Item{Kind: downloads.KindPackage, Manager: "yum", Name: "containerd.io", Version: "2.2*"}
	repository := downloads.Item{Kind: downloads.KindRepository, Manager: "apt", Name: "https://d.example/ubuntu", Suite: "noble stable"}
	image := downloads.Item{Kind: downloads.KindImage, Name: "registry.k8s.io/pause:3.10"}
	unknown := downloads.Item{Kind: downloads.KindUnresolved, Name: "https://a.example/v1/${x}/y", Reason: "it is unknown"}
	for name, c := range map[string]struct {
		line string
		item downloads.Item
		want string
	}{
		"the URL":                      {"https://a.example/v1/x", url, ""},
		"the URL with its digest":      {"https://a.example/v1/x sha256:" + sum, url, ""},
		"another digest":               {"https://a.example/v1/x sha256:" + strings.Repeat("0", 64), url, "is mirrored with the SHA-256 0000"},
		"all below":                    {"https://a.example/v1/", url, ""},
		"a star":                       {"https://a.example/*/x", url, ""},
		"a URL that begins like it":    {"https://a.example/v1", url, "is not mirrored"},
		"another host":                 {"https://b.example/v1/x", url, "is not mirrored"},
		"nothing":                      {"# nothing", url, "is not mirrored"},
		"the package":                  {"package yum containerd.io 2.2*", pkg, ""},
		"a release that it asks for":   {"package yum containerd.io 2.2.1", pkg, ""},
		"a release that it does not":   {"package yum containerd.io 2.1.4", pkg, "is not mirrored"},
		"every release":                {"package yum containerd.io", pkg, ""},
		"every package":                {"package yum *", pkg, ""},
		"another manager":              {"package apt containerd.io", pkg, "is not mirrored"},
		"the repository":               {"repository apt https://d.example/ubuntu/ noble stable", repository, ""},
		"every suite":                  {"repository apt https://d.example/ubuntu", repository, ""},
		"another suite":                {"repository apt https://d.example/ubuntu jammy stable", repository, "is not mirrored"},
		"a repository by its host":     {"https://d.example/", repository, ""},
		"the image":                    {"image registry.k8s.io/pause:3.10", image, ""},
		"a registry":                   {"image registry.k8s.io/", image, ""},
		"another tag":                  {"image registry.k8s.io/pause:3.9", image, "is not mirrored"},
		"all that it may be":           {"https://a.example/v1/", unknown, ""},
		"less than all that it may be": {"https://a.example/v1/1/", unknown, "cannot be compared with the mirrored items: it is unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := mirrored.Parse("m", []byte(c.line+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			got := m.MissingReason(c.item)
			if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	_, err := mirrored.Parse("mirrors.txt", []byte("https://a.example/x\nhttps://a.example/y 0123\nimages a\npackage jq\n"))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"mirrors.txt:2: only a digest", "mirrors.txt:3: expected one of", "mirrors.txt:4: expected one of"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
