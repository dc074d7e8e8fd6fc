// Package shellcheck runs the program shellcheck on the scripts that nodes get. No other
// package of the product runs a program (security.md 23). It passes fixed arguments without
// a shell, the scripts on standard input or through pipes, and a minimal environment. The
// controller does not use this package.
//
// Start with Checker. A finding here has the line of the script; lint.Text.Finding converts it to
// the line of the profile.
package shellcheck

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"mvdan.cc/sh/v3/syntax"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
)

// Name of the program.
const Name = "shellcheck"

// DefaultLevel is the lowest level that is reported by default. It includes likely mistakes:
// unquoted variables have the level info.
const DefaultLevel = "info"

// timeout limits the check of one script. The largest built-in script takes a second.
const timeout = 60 * time.Second

// batchScripts is how many scripts a process gets: its start takes as long as a small script, and
// every processor should have work.
const batchScripts = 8

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
	// Cache stores comments for later runs; nil stores none.
	Cache *Cache

	mu       sync.Mutex
	comments map[string][]comment // by the form of a script
	version  string
	err      error
}

// script is a script that the program checks.
type script struct{ dialect, content string }

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

// Check is a lint.TextsCheck. Scripts of one form are checked once: the first of them in the
// order of their contents, so that the findings do not depend on the order of the texts.
func (c *Checker) Check(ctx context.Context, texts []lint.Text) [][]lint.Finding {
	forms := make([]string, len(texts))
	todo := map[string]script{}
	for i, t := range texts {
		if t.Kind != lint.KindShell {
			continue
		}
		s := scriptOf(t)
		forms[i] = s.normalizedDigest()
		if other, ok := todo[forms[i]]; !ok || s.content < other.content {
			todo[forms[i]] = s
		}
	}
	c.checkScripts(ctx, todo)
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([][]lint.Finding, len(texts))
	for i, t := range texts {
		for _, comment := range c.comments[forms[i]] {
			f := t.Finding(lint.RuleShellcheck, severity(comment.Level), comment.Line, fmt.Sprintf("SC%d: %s", comment.Code, comment.Message))
			f.Fix = fmt.Sprintf("see https://www.shellcheck.net/wiki/SC%d", comment.Code)
			out[i] = append(out[i], f)
		}
	}
	return out
}

func scriptOf(t lint.Text) script {
	if t.Interpreter == "bash" || t.Interpreter == "dash" {
		return script{t.Interpreter, string(t.Content)}
	}
	return script{"sh", string(t.Content)}
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

// A URL or release number of these characters does not change how a shell parses the script.
var (
	urlOrRelease = regexp.MustCompile(`\b[a-z]+://[A-Za-z0-9._:@/-]+|` + release.String())
	release      = regexp.MustCompile(`\bv?\d+(\.\d+)+\b`)
)

// maxNumbers bounds the comparisons of the release numbers of a script with each other. A script
// that compares more has a form of its own.
const maxNumbers = 100

// normalizedDigest returns a digest that scripts share if they differ only in URLs, and in release numbers that
// do not matter to shellcheck. Equal ones remain equal and different ones different, since it compares names of
// files, unless a variable gets them. A pattern such as 1.30.* also matches numbers that contain its own, so the
// digest includes which numbers do, and what they have around it.
func (s script) normalizedDigest() string {
	file, err := shell.Parse(s.content)
	if err != nil {
		return s.exactDigest()
	}
	ids := map[string]int{}
	id := func(value string) string {
		if _, ok := ids[value]; !ok {
			ids[value] = len(ids)
		}
		return fmt.Sprintf("\x00%d\x00", ids[value]) // no text has NUL
	}
	compared, assigned := s.releaseNumbers(file)
	if len(compared) > maxNumbers {
		return s.exactDigest()
	}
	var form strings.Builder
	at := 0
	for _, match := range urlOrRelease.FindAllStringIndex(s.content, -1) {
		value := s.content[match[0]:match[1]]
		if number := strings.TrimPrefix(value, "v"); !strings.Contains(value, "://") {
			match[0] += len(value) - len(number) // "$v1.2" is not "$1.2"
			value = number
		}
		form.WriteString(s.content[at:match[0]])
		if assigned[match[0]] {
			form.WriteString("\x00\x00")
		} else {
			form.WriteString(id(value))
		}
		at = match[1]
	}
	form.WriteString(s.content[at:])
	var relations []string
	for a := range compared {
		for b := range compared {
			for i := range b {
				if a != b && strings.HasPrefix(b[i:], a) {
					relations = append(relations, id(b)+b[:i]+id(a)+b[i+len(a):])
				}
			}
		}
	}
	slices.Sort(relations)
	return fmt.Sprintf("%x", cacheKey("", []string{s.dialect}, form.String()+"\x00"+strings.Join(relations, "\x00")))
}

// exactDigest returns a digest that only an equal script has.
func (s script) exactDigest() string {
	return fmt.Sprintf("%x", cacheKey("", []string{s.dialect}, s.content))
}

// releaseNumbers returns the release numbers that shellcheck compares with patterns, those in a "case", outside
// its commands, and in conditions; and where the ones are that a variable gets, without a "v".
func (s script) releaseNumbers(file *syntax.File) (compared map[string]bool, assigned map[int]bool) {
	compared, assigned = map[string]bool{}, map[int]bool{}
	visit := func(n syntax.Node, found func(at int, number string)) {
		start, end := int(n.Pos().Offset()), int(n.End().Offset())
		for _, match := range release.FindAllStringIndex(s.content[start:end], -1) {
			value := s.content[start+match[0] : start+match[1]]
			number := strings.TrimPrefix(value, "v")
			found(start+match[0]+len(value)-len(number), number)
		}
	}
	compare := func(n syntax.Node) { visit(n, func(_ int, number string) { compared[number] = true }) }
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CaseClause:
			compare(n.Word)
			for _, item := range n.Items {
				for _, pattern := range item.Patterns {
					compare(pattern)
				}
			}
		case *syntax.TestClause:
			compare(n)
		case *syntax.CallExpr:
			if len(n.Args) > 0 && slices.Contains([]string{"[", "test"}, n.Args[0].Lit()) {
				compare(n)
			}
		case *syntax.Assign:
			if n.Value != nil && !runsCommand(n.Value) {
				visit(n.Value, func(at int, _ string) { assigned[at] = true })
			}
		}
		return true
	})
	return compared, assigned
}

// runsCommand reports whether a word contains a command.
func runsCommand(word *syntax.Word) (runs bool) {
	syntax.Walk(word, func(n syntax.Node) bool {
		_, isCommand := n.(*syntax.Stmt)
		runs = runs || isCommand
		return !runs
	})
	return runs
}

// checkScripts stores the comments on each script under its form, from an earlier call, the
// cache or the program.
func (c *Checker) checkScripts(ctx context.Context, todo map[string]script) {
	c.mu.Lock()
	if c.comments == nil {
		c.comments = map[string][]comment{}
	}
	maps.DeleteFunc(todo, func(form string, _ script) bool { _, ok := c.comments[form]; return ok })
	c.mu.Unlock()
	if len(todo) == 0 {
		return
	}
	version, err := c.programVersion(ctx)
	if err != nil {
		c.recordError(ctx, err)
		return
	}
	batches := map[string][][]string{} // forms, by dialect
	for _, form := range slices.Sorted(maps.Keys(todo)) {
		s := todo[form]
		if comments, ok := c.Cache.get(cacheKey(version, c.arguments(s.dialect), s.content)); ok {
			c.setComments(form, comments)
			continue
		}
		of := batches[s.dialect]
		if n := len(of); n == 0 || len(of[n-1]) == batchScripts {
			of = append(of, nil)
		}
		of[len(of)-1] = append(of[len(of)-1], form)
		batches[s.dialect] = of
	}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for dialect, of := range batches {
		for _, forms := range of {
			group.Go(func() error {
				contents := make([]string, len(forms))
				for i, form := range forms {
					contents[i] = todo[form].content
				}
				comments, err := c.run(ctx, dialect, contents)
				if err != nil {
					c.recordError(ctx, err)
					return nil
				}
				for i, form := range forms {
					c.setComments(form, comments[i])
					c.Cache.add(cacheKey(version, c.arguments(dialect), contents[i]), comments[i])
				}
				return nil
			})
		}
	}
	_ = group.Wait() // failures are in Err
}

func (c *Checker) setComments(form string, comments []comment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.comments[form] = comments
}

// recordError records an error, unless the context ended: its caller reports what was not checked.
func (c *Checker) recordError(ctx context.Context, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && ctx.Err() == nil {
		c.err = err
	}
}

// programVersion identifies the program, as a part of the key of cached comments; "" without a
// cache. It has the size and time of the file next to what it prints: builds without a release all
// print 0.0.0.
func (c *Checker) programVersion(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Cache == nil || c.version != "" {
		return c.version, nil
	}
	out, err := c.commandOutput(exec.CommandContext(ctx, c.Path, "--version"))
	if err != nil {
		return "", err
	}
	info, err := os.Stat(c.Path)
	if err != nil {
		return "", err
	}
	c.version = fmt.Sprintf("%s\x00%d\x00%d", out, info.Size(), info.ModTime().UnixNano())
	return c.version, nil
}

func (c *Checker) arguments(dialect string) []string {
	// SC1090, SC1091: a file that the script reads is on the node, not here.
	return []string{"--norc", "--severity=" + cmp.Or(c.Level, DefaultLevel), "--shell=" + dialect, "--exclude=SC1090,SC1091", "--format=json1"}
}

// run runs the program on scripts of a dialect, and returns the comments on each of them.
func (c *Checker) run(ctx context.Context, dialect string, scripts []string) ([][]comment, error) {
	if len(scripts) == 1 {
		comments, err := c.runProgram(ctx, dialect, []string{"-"}, nil, strings.NewReader(scripts[0]))
		return [][]comment{comments["-"]}, err
	}
	comments, err := c.runBatch(ctx, dialect, scripts)
	if err == nil {
		return comments, nil
	}
	// A script of them can be the cause, or the program cannot open its descriptors.
	out := make([][]comment, len(scripts))
	for i, s := range scripts {
		alone, err := c.run(ctx, dialect, []string{s})
		if err != nil {
			return nil, err
		}
		out[i] = alone[0]
	}
	return out, nil
}

// runBatch passes each script through a pipe, so that none is written to a disk.
func (c *Checker) runBatch(ctx context.Context, dialect string, scripts []string) ([][]comment, error) {
	var writers sync.WaitGroup
	defer writers.Wait() // closing the files, which is deferred below, ends a blocked write
	var names []string
	var files []*os.File
	for i, s := range scripts {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		defer r.Close()
		const first = 3 // the descriptor of the first of exec.Cmd.ExtraFiles
		names, files = append(names, fmt.Sprintf("/dev/fd/%d", first+i)), append(files, r)
		writers.Go(func() {
			defer w.Close()
			_, _ = io.WriteString(w, s) // fails if shellcheck ends early, whose error is returned below
		})
	}
	comments, err := c.runProgram(ctx, dialect, names, files, nil)
	if err != nil {
		return nil, err
	}
	out := make([][]comment, len(scripts))
	for i, name := range names {
		out[i] = comments[name]
	}
	return out, nil
}

// runProgram runs the program on scripts, and returns its comments by their names.
func (c *Checker) runProgram(ctx context.Context, dialect string, names []string, files []*os.File, stdin io.Reader) (map[string][]comment, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(names))*timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Path, append(c.arguments(dialect), names...)...)
	cmd.Stdin, cmd.ExtraFiles = stdin, files
	out, err := c.commandOutput(cmd)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Comments []struct {
			File string `json:"file"`
			comment
		} `json:"comments"`
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return nil, fmt.Errorf("reading the output of %s: %w", c.Path, err)
	}
	comments := map[string][]comment{}
	for _, comment := range answer.Comments {
		comments[comment.File] = append(comments[comment.File], comment.comment)
	}
	return comments, nil
}

// commandOutput runs a command of the program. Status 1 means that it has comments.
func (c *Checker) commandOutput(cmd *exec.Cmd) ([]byte, error) {
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"} // no SHELLCHECK_OPTS
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		err = nil
	}
	if err != nil {
		message := ""
		if exit != nil {
			message, _, _ = strings.Cut(strings.TrimSpace(string(exit.Stderr)), "\n")
		}
		return nil, fmt.Errorf("running %s: %w %s", c.Path, err, message)
	}
	return out, nil
}
