// Package shellcheck runs the program shellcheck on the scripts that nodes get. No other
// package of the product runs a program (security.md 23). It passes fixed arguments without
// a shell, the script on standard input, and a minimal environment. The controller does not
// use this package.
//
// Start with Checker.
package shellcheck

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
)

// Name of the program.
const Name = "shellcheck"

// Levels of shellcheck, the most severe first. DefaultLevel includes likely mistakes:
// unquoted variables have the level info.
var Levels = []string{"error", "warning", "info", "style"}

// DefaultLevel is the lowest level that is reported by default.
const DefaultLevel = "info"

// timeout limits the check of one script. The largest built-in script takes a second.
const timeout = 60 * time.Second

// Find returns the path of the program, "" if it is not installed.
func Find() string {
	path, err := exec.LookPath(Name)
	if err != nil {
		return ""
	}
	return path
}

// Missing describes the checks that are omitted without the program.
func Missing() lint.MissingTool {
	return lint.MissingTool{Name: Name, Means: "scripts were parsed, but not checked by shellcheck; install it (Debian, Ubuntu: apt-get install shellcheck; others: https://www.shellcheck.net)"}
}

// Checker runs the program. It is safe for concurrent use.
type Checker struct {
	// Path of the program.
	Path string
	// Level is the lowest level that is reported; "" is DefaultLevel.
	Level string

	mu      sync.Mutex
	results map[[sha256.Size]byte]*result
	err     error
}

type result struct {
	once     sync.Once
	comments []comment
}

// comment is a comment of shellcheck in its format json1.
type comment struct {
	Line    int    `json:"line"`
	Level   string `json:"level"`
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Err returns the first failure to run the program. After one, a result without findings is incomplete.
func (c *Checker) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Check is a lint.TextCheck.
func (c *Checker) Check(ctx context.Context, t lint.Text) []lint.Finding {
	if t.Kind != lint.KindShell {
		return nil
	}
	dialect := t.Interpreter
	if dialect != "bash" && dialect != "dash" {
		dialect = "sh"
	}
	var out []lint.Finding
	for _, said := range c.cachedRun(ctx, dialect, t.Content) {
		f := t.Finding(lint.RuleShellcheck, severity(said.Level), said.Line, fmt.Sprintf("SC%d: %s", said.Code, said.Message))
		f.Fix = fmt.Sprintf("see https://www.shellcheck.net/wiki/SC%d", said.Code)
		out = append(out, f)
	}
	return out
}

func severity(level string) lint.Severity {
	switch level {
	case "error":
		return lint.SeverityError
	case "style":
		return lint.SeverityNote
	}
	return lint.SeverityWarning
}

// version matches a release number. Its value does not change how a shell parses the script.
var version = regexp.MustCompile(`\b(v?)\d+(\.\d+)+\b`)

// cachedRun checks a script, once for all scripts that differ only in release numbers.
func (c *Checker) cachedRun(ctx context.Context, dialect string, script []byte) []comment {
	key := sha256.Sum256(append([]byte(dialect+"\x00"), version.ReplaceAll(script, []byte("${1}0.0.0"))...))
	c.mu.Lock()
	if c.results == nil {
		c.results = map[[sha256.Size]byte]*result{}
	}
	a := c.results[key]
	if a == nil {
		a = &result{}
		c.results[key] = a
	}
	c.mu.Unlock()
	a.once.Do(func() {
		comments, err := c.run(ctx, dialect, script)
		a.comments = comments
		if err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.err == nil {
				c.err = err
			}
		}
	})
	return a.comments
}

// run runs the program on one script.
func (c *Checker) run(ctx context.Context, dialect string, script []byte) ([]comment, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	level := c.Level
	if level == "" {
		level = DefaultLevel
	}
	// SC1090, SC1091: a file that the script reads is on the node, not here.
	cmd := exec.CommandContext(ctx, c.Path, "--norc", "--severity="+level, "--shell="+dialect, "--exclude=SC1090,SC1091", "--format=json1", "-")
	cmd.Stdin = bytes.NewReader(script)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"} // no SHELLCHECK_OPTS
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 { // it reports comments
		err = nil
	}
	if err != nil {
		said := ""
		if exit != nil {
			said, _, _ = strings.Cut(strings.TrimSpace(string(exit.Stderr)), "\n")
		}
		return nil, fmt.Errorf("running %s: %w %s", c.Path, err, said)
	}
	var answer struct {
		Comments []comment `json:"comments"`
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return nil, fmt.Errorf("reading the output of %s: %w", c.Path, err)
	}
	return answer.Comments, nil
}
