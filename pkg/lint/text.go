package lint

import (
	"bytes"
	"context"
	"path"
	"regexp"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Kind says what reads a text.
type Kind string

// The kinds of texts.
const (
	// KindShell is a script of sh, bash or dash, and a command of runcmd or bootcmd.
	KindShell Kind = "shell"
	// KindScript is a script of another interpreter.
	KindScript Kind = "script"
	// KindUnit is a unit file of systemd, or a drop-in.
	KindUnit Kind = "unit"
	// KindOther is every other file.
	KindOther Kind = "other"
)

// Text is one distinct text that nodes get: a file, a unit, or a command of a
// cloud-init module. Texts that several combinations make alike are one.
type Text struct {
	// Document is the profile.
	Document profile.Document
	// Stage is "bootstrap" or "provisioning".
	Stage string
	// File is the path on the node; of a command, "runcmd[0]".
	File string
	// Mode are the permission bits on the node, 0 of a command.
	Mode uint32
	// Field of the profile that it was made of, such as
	// "spec.bootstrapConfig.files[3].content.inline.data".
	Field string
	// Kind of the text, and Interpreter, the program of its first line if that
	// begins with "#!": "bash", "sh", "python3". A command's is "sh".
	Kind        Kind
	Interpreter string
	// Content as written to the node, with placeholders in place of credentials.
	Content []byte
	// Example is a combination that makes it, such as "aws, kubelet 1.33.0, proxy
	// plain".
	Example string

	// origins has the origin of each line of Content: of a value the action that printed it, of
	// an included template that template's own line.
	origins []render.LineOrigin
}

// TextCheck looks at one distinct text. It is called from several goroutines. Its
// findings have a rule, a severity and a message; Text.Finding fills in the rest.
type TextCheck func(ctx context.Context, t Text) []Finding

// TextsCheck looks at all distinct texts of a profile, and returns the findings of each. The
// texts have no Example.
type TextsCheck func(ctx context.Context, texts []Text) [][]Finding

// Finding makes a finding about a line of Content, 0 being the whole text. Its file and line are
// those of the profile from which the line of Content comes.
func (t Text) Finding(rule string, severity Severity, line int, message string) Finding {
	from := render.LineOrigin{Field: t.Field, Line: 1}
	if n := len(t.origins); line > 0 && n > 0 {
		from = t.origins[min(line, n)-1]
	}
	file, at := t.Document.Position(from.Field, from.Line)
	return Finding{
		Rule: rule, Severity: severity, Path: file, Line: at,
		Profile: t.Document.Name, Version: t.Document.Spec.Version, Field: t.Field, File: t.File, Message: message,
	}
}

// shebang is the first line of a script: "#!/bin/bash -e", "#!/usr/bin/env python3".
var shebang = regexp.MustCompile(`^#!\s*(\S+)(?:[ \t]+(\S+))?`)

// kindOf determines the program that reads a file.
func kindOf(file string, content []byte) (kind Kind, interpreter string) {
	if m := shebang.FindSubmatch(content); m != nil {
		interpreter = path.Base(string(m[1]))
		if interpreter == "env" && len(m[2]) > 0 {
			interpreter = path.Base(string(m[2]))
		}
		switch interpreter {
		case "sh", "bash", "dash":
			return KindShell, interpreter
		}
		return KindScript, interpreter
	}
	if isUnitFile(file) {
		return KindUnit, ""
	}
	if strings.HasSuffix(file, ".sh") && bytes.ContainsRune(content, '\n') {
		return KindShell, "sh"
	}
	return KindOther, ""
}

// unitFile is a unit of systemd or a drop-in where systemd reads them, systemd.unit(5).
var unitFile = regexp.MustCompile(`^/(etc|run|usr/lib|lib|usr/local/lib)/systemd/system/([^/]+\.(service|socket|device|mount|automount|swap|target|path|timer|slice|scope)|[^/]+\.d/[^/]+\.conf)$`)

func isUnitFile(file string) bool { return unitFile.MatchString(path.Clean(file)) }
