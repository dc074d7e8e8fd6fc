package watch

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

// What the kernel says becomes the setting to raise.
func TestExplain(t *testing.T) {
	for err, says := range map[error]string{
		syscall.ENOSPC: "max_user_watches", syscall.EMFILE: "max_user_instances", syscall.ENFILE: "max_user_instances", errors.ErrUnsupported: "does not watch",
	} {
		if got := explainWatchError(&fs.PathError{Op: "watch", Path: "/x", Err: err}); !strings.Contains(got, says) {
			t.Errorf("%v: %q", err, got)
		}
	}
}
