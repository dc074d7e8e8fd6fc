package lint

import (
	"bytes"
	"context"
	"path"
	"regexp"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/profile"
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

	// lines has the line of the profile for each line of Content.
	lines []int
	// fields contains the field of each part, which can be a template of another file than
	// Field; nil if Field contains all.
	fields []string
}

// TextCheck looks at one distinct text. It is called from several goroutines. Its
// findings have a rule, a severity and a message; Text.Finding fills in the rest.
type TextCheck func(ctx context.Context, t Text) []Finding

// TextsCheck looks at all distinct texts of a profile, and returns the findings of each. The
// texts have no Example.
type TextsCheck func(ctx context.Context, texts []Text) [][]Finding

// SourceLine returns the line of the profile's file that a line of Content came from,
// both counted from 1: of a value the line of the action that printed it, of an
// included template that template's own line.
func (t Text) SourceLine(n int) int {
	if len(t.lines) == 0 {
		return 0
	}
	return t.lines[min(max(n, 1), len(t.lines))-1]
}

// Finding makes a finding about a line of Content, 0 being the whole text.
func (t Text) Finding(rule string, severity Severity, line int, message string) Finding {
	at, file := t.Document.Line(t.Field), t.Document.FileOf(t.Field)
	if line > 0 {
		at = t.SourceLine(line)
	}
	if n := len(t.fields); line > 0 && n > 0 {
		file = t.Document.FileOf(t.fields[min(line, n)-1])
	}
	if file == "" {
		file = t.Document.Path
	}
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
