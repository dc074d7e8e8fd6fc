package ui

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// look is one page to look at.
type look struct {
	URL        string `json:"url"`
	Variant    string `json:"variant"`
	Keyboard   bool   `json:"keyboard,omitempty"`
	Screenshot string `json:"screenshot,omitempty"`
	Height     int    `json:"height,omitempty"` // the most of the screenshot
	Password   string `json:"password,omitempty"`
	Plain      bool   `json:"plain,omitempty"` // not judged: from a file axe-core cannot read the style
}

// step is something a person does without JavaScript.
type step struct {
	Open  string `json:"open,omitempty"`
	Click string `json:"click,omitempty"`
	Fill  string `json:"fill,omitempty"`
	With  string `json:"with,omitempty"`
	Press string `json:"press,omitempty"`
}

type plan struct {
	Looks []look `json:"looks,omitempty"`
	Walk  []step `json:"walk,omitempty"`
}

// sight is what was seen of a page.
type sight struct {
	URL, Variant, Title, Heading, Text       string
	Back, Ink                                string // colours of the page and of its text
	Status, Wide, Scripts, Rules             int
	Problems, Requests, Violations, Handlers []string
	Elements                                 []string
	Headings                                 []int
	Keyboard                                 []stop
}

// stop is an element that the tab key reaches.
type stop struct {
	Name, Tag string
	Seen      bool
}

type report struct {
	Version string
	Seen    []sight
	Walked  []struct{ At, Heading, Problem string }
}

// errUnavailable means that this machine has no browser, or that its driver cannot be
// downloaded.
var errUnavailable = errors.New("no browser to look at pages with")

// needsBrowser finds Chromium and what drives it. It skips the test if there is none, and fails it in CI.
func needsBrowser(t *testing.T) (chromium, modules string) {
	t.Helper()
	chromium, modules, err := browser(t)
	if err != nil {
		if !errors.Is(err, errUnavailable) || os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		fmt.Fprintf(os.Stderr, "page: SKIPPED %s: %v\n", t.Name(), err)
		t.Skip(err) // a machine without Chromium; CI has failed above
	}
	return chromium, modules
}

// run loads the pages of a plan.
func (p plan) run(t *testing.T) report {
	t.Helper()
	chromium, modules := needsBrowser(t)
	in, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var out, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "node", "look.cjs", modules, chromium)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("looking at %d pages: %v\n%s", len(p.Looks), err, stderr.String())
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Seen) != len(p.Looks) {
		t.Fatalf("of %d pages %d were seen", len(p.Looks), len(r.Seen))
	}
	return r
}

// browser finds Chromium, and fetches what drives it by the lock file, once, into the
// user's cache.
func browser(t *testing.T) (chromium, modules string, err error) {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if chromium, err = exec.LookPath(name); err == nil {
			break
		}
	}
	if err != nil {
		return "", "", fmt.Errorf("%w: install chromium, as hack/prerequisites does", errUnavailable)
	}
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			return "", "", fmt.Errorf("%w: %w: install nodejs and npm, as hack/prerequisites does", errUnavailable, err)
		}
	}
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		return "", "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", errUnavailable, err)
	}
	sum := sha256.Sum256(lock)
	modules = filepath.Join(cache, "osm-gitops", "page", hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(filepath.Join(modules, "complete")); err == nil {
		return chromium, modules, nil
	}
	return chromium, modules, fetch(t, modules)
}

// fetch installs the packages of the lock file. None of them runs anything for that.
func fetch(t *testing.T, modules string) error {
	t.Helper()
	if err := os.MkdirAll(modules, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(modules, name), b, 0o600); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = modules
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: npm ci: %w\n%s", errUnavailable, err, out)
	}
	return os.WriteFile(filepath.Join(modules, "complete"), nil, 0o600)
}
