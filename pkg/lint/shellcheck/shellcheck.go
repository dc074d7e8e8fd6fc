// Package shellcheck asks the program shellcheck about the scripts that nodes get. It
// is the one place of the product that runs a program (security.md 23): with fixed
// arguments, without a shell, the script on its standard input and an environment of
// our own. The controller never comes here.
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

// Levels of shellcheck, the gravest first. DefaultLevel has what is likely a mistake:
// unquoted variables are of level info.
var Levels = []string{"error", "warning", "info", "style"}

// DefaultLevel is the least grave level that is a finding where nothing else is said.
const DefaultLevel = "info"

// timeout bounds one script. The largest of ours takes a second.
const timeout = 60 * time.Second

// Find returns the path of the program, "" where it is not installed.
func Find() string {
	path, err := exec.LookPath(Name)
	if err != nil {
		return ""
	}
	return path
}

// Missing says what is not checked without the program.
func Missing() lint.MissingTool {
	return lint.MissingTool{Name: Name, Means: "scripts were parsed and not checked for what shellcheck knows; install it (Debian, Ubuntu: apt-get install shellcheck; others: https://www.shellcheck.net)"}
}

// Checker asks the program. It is safe for concurrent use.
type Checker struct {
	// Path of the program.
	Path string
	// Level is the least grave one that is a finding; "" is DefaultLevel.
	Level string

	mu    sync.Mutex
	known map[[sha256.Size]byte]*answer
	err   error
}

type answer struct {
	once     sync.Once
	comments []comment
}

// comment is one of shellcheck's, in its format json1.
type comment struct {
	Line    int    `json:"line"`
	Level   string `json:"level"`
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Err is the first failure to run the program: then nothing found means nothing.
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
	for _, said := range c.ask(ctx, dialect, t.Content) {
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

// version is a release number, which is one word to a shell whatever it is.
var version = regexp.MustCompile(`\b(v?)\d+(\.\d+)+\b`)

// ask asks about a script, once for those that differ in release numbers only.
func (c *Checker) ask(ctx context.Context, dialect string, script []byte) []comment {
	key := sha256.Sum256(append([]byte(dialect+"\x00"), version.ReplaceAll(script, []byte("${1}0.0.0"))...))
	c.mu.Lock()
	if c.known == nil {
		c.known = map[[sha256.Size]byte]*answer{}
	}
	a := c.known[key]
	if a == nil {
		a = &answer{}
		c.known[key] = a
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
	if errors.As(err, &exit) && exit.ExitCode() == 1 { // it has something to say
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
		return nil, fmt.Errorf("reading what %s says: %w", c.Path, err)
	}
	return answer.Comments, nil
}
