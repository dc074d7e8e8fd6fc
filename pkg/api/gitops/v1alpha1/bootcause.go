package v1alpha1

import (
	"fmt"
	"time"
)

// A boot that fails for this time, or this often, counts as one failed machine.
const (
	BootFailingLimit    = 5 * time.Minute
	bootFailingAttempts = 3
)

// CountsFrom is when a failing boot counts as a failed machine.
func (m *MachineBootStatus) CountsFrom() time.Time {
	if m.Attempt >= bootFailingAttempts {
		return m.Since.Time
	}
	return m.Since.Add(BootFailingLimit)
}

// Place is where the command is: "FILE:LINE" of the repository, or else of the node, there without
// ":LINE" if only the file is known; "" if unknown.
func (c *BootCause) Place() string {
	switch {
	case c == nil:
		return ""
	case c.File != "":
		return fmt.Sprintf("%s:%d", c.File, c.Line)
	case c.NodeFile != "" && c.NodeLine == 0: // as after "exit 1"
		return c.NodeFile
	case c.NodeFile != "":
		return fmt.Sprintf("%s:%d", c.NodeFile, c.NodeLine)
	}
	return ""
}

// String describes the cause without the command: its place, and the exit status. It is "" if
// neither is known.
func (c *BootCause) String() string {
	text := c.Place()
	switch {
	case c == nil:
		return ""
	case text == "" && c.ExitStatus == 0:
		return ""
	case text == "":
		text = "a command that is not known"
	case c.File == "":
		text = "line on the node " + text
	case c.Near:
		text = "near " + text
	}
	if c.ExitStatus != 0 {
		text += fmt.Sprintf(", exit status %d", c.ExitStatus)
	}
	return text
}
