// Package runnerlog keeps names and messages that are printed in a job of GitHub Actions,
// Gitea, Forgejo or Azure Pipelines from being commands to the job's runner, and characters
// that no reader sees from being printed as they are.
//
// A runner of GitHub takes a line for a command that begins with "::" behind blanks, and
// one with "##[" anywhere; that of Azure Pipelines one with "##vso[" or "##[" anywhere:
// https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
// https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs
// https://learn.microsoft.com/azure/devops/pipelines/scripts/logging-commands
//
// Start with Writer and Visible.
package runnerlog

import (
	"bytes"
	"io"
)

// space has no width: people see the text unchanged.
const space = "\u200b"

// Writer passes on what holds no command, and breaks what would be one. It may be written
// to in pieces of any size, by one goroutine at a time. Of JSON and XML the beginning of a
// character is held back, of text nothing.
type Writer struct {
	to io.Writer
	// What stands in place of the colon and of the bracket that would make a command.
	colon, bracket string

	line string // how the current line begins: "" with blanks, ":" with a colon, "x" with anything else
	last [5]byte
}

// Text is for what people read, Markdown included.
func Text(to io.Writer) *Writer { return &Writer{to: to, colon: space + ":", bracket: space + "["} }

// JSON is for JSON, which stays the same value: "##[" and hidden characters are only ever in
// strings, and are escaped there.
func JSON(to io.Writer) *Writer {
	return &Writer{to: &escaper{to: to, escape: jsonEscape}, colon: ":", bracket: `\u005b`}
}

// XML is for XML without CDATA sections, which stays the same document: neither a command nor
// a hidden character is in its markup.
func XML(to io.Writer) *Writer {
	return &Writer{to: &escaper{to: to, escape: xmlEscape}, colon: "&#58;", bracket: "&#91;"}
}

// Write returns len(p), or an error.
func (w *Writer) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p)+16)
	for _, c := range p {
		switch {
		case c == '[' && (bytes.HasSuffix(w.last[:], []byte("##")) || string(w.last[:]) == "##vso"):
			out = append(out, w.bracket...)
		case c == ':' && w.line == ":":
			out = append(out, w.colon...)
		default:
			out = append(out, c)
		}
		switch {
		case c == '\n' || c == '\r':
			w.line = ""
		case w.line == "" && c == ':':
			w.line = ":"
		case w.line == "" && (c <= ' ' || c >= 0x7f): // a blank, or part of one beyond ASCII
		default:
			w.line = "x"
		}
		copy(w.last[:], w.last[1:])
		w.last[4] = c
	}
	if _, err := w.to.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
