package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
)

// auditLogFlags are those of `osm-gitops verify --audit-log`.
type auditLogFlags struct {
	files []string
	hash  string
}

func (f *auditLogFlags) bind(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.files, "audit-log", nil, "`FILE` that the controller wrote as its --audit-log, to verify in place of a node; more of them, such as those of logrotate, may follow in any order")
	fs.StringVar(&f.hash, "audit-log-hash", "", "`HASH` of a line that an earlier verify printed as the last one: it has to be there")
}

// lineHash is a hash as verify prints it.
var lineHash = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// asked reports whether an audit log is to be verified.
func (f *auditLogFlags) asked() bool { return len(f.files) > 0 || f.hash != "" }

func (f *auditLogFlags) check() error {
	if len(f.files) == 0 {
		return misusef("osm-gitops verify --audit-log FILE... --audit-log-hash HASH", "--audit-log-hash is of no use without --audit-log")
	}
	if f.hash != "" && !lineHash.MatchString(f.hash) { // or it would look as if a line were gone
		return misusef("osm-gitops verify --audit-log FILE... --audit-log-hash HASH", "--audit-log-hash: %q is no hash of a line: it is sha256: and 64 hex digits", f.hash)
	}
	return nil
}

// run checks the chain of files, the arguments being more of them.
func (f *auditLogFlags) run(args []string, stdout, stderr io.Writer) error {
	if err := f.check(); err != nil {
		return err
	}
	sum, err := auditlog.Verify(append(f.files, args...), f.hash, nil)
	var broken *auditlog.BrokenError
	if errors.As(err, &broken) {
		return fmt.Errorf("the audit log is broken at %w", err)
	}
	if err != nil {
		return err
	}
	if sum.Lines == 0 {
		return errors.New("the audit log has no line yet")
	}
	if sum.First > 1 {
		warn(stderr, fmt.Errorf("it begins with line number %d: the lines before are in files that were not given", sum.First))
	}
	fmt.Fprintf(stdout, "the chain is whole: %d lines, number %d to %d, in %s\nlast hash %s\n", sum.Lines, sum.First, sum.Last.Sequence, strings.Join(sum.Files, ", "), sum.Last.Hash)
	if f.hash != "" && !sum.Anchored {
		return fmt.Errorf("--audit-log-hash: no line has the hash %s: what was there up to it was changed or taken away, or is in a file that was not given", f.hash)
	}
	return nil
}
