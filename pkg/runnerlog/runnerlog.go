// Package runnerlog makes output safe in a job of GitHub Actions, Gitea, Forgejo or Azure
// Pipelines: names and messages cannot be commands to the job's runner, and invisible
// characters are escaped.
//
// For a runner of GitHub, a line is a command if it begins with spaces and "::", or contains
// "##["; for one of Azure Pipelines, if it contains "##vso[" or "##[":
// https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
// https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs
// https://learn.microsoft.com/azure/devops/pipelines/scripts/logging-commands
//
// Start with Writer and WithoutHidden.
package runnerlog

import (
	"bytes"
	"io"
)

// space has no width: the text looks unchanged.
const space = "\u200b"

// Writer copies its input and breaks what would be a command. Input can be written in
// pieces of any size, by one goroutine at a time. For JSON and XML an incomplete character
// is buffered, for text nothing.
type Writer struct {
	to io.Writer
	// Replacements of the colon and the bracket of a command.
	colon, bracket string

	line string // start of the current line: "" after spaces, ":" after a colon, "x" after any other character
	last [5]byte
}

// Text is for text that people read, including Markdown.
func Text(to io.Writer) *Writer { return &Writer{to: to, colon: space + ":", bracket: space + "["} }

// JSON is for JSON and preserves its value: "##[" and hidden characters occur only in
// strings, and are escaped there.
func JSON(to io.Writer) *Writer {
	return &Writer{to: &escaper{to: to, escape: jsonEscape}, colon: ":", bracket: `\u005b`}
}

// XML is for XML without CDATA sections and preserves the document: markup contains neither
// commands nor hidden characters.
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
		case w.line == "" && (c <= ' ' || c >= 0x7f): // a space, or a part of one beyond ASCII
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
