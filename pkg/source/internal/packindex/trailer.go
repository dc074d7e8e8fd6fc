package packindex

import (
	"errors"
	"os"

	"github.com/pjbgf/sha1cd"
)

// CheckTrailer detects a pack that is truncated, or belongs to another index.
func CheckTrailer(f *os.File, want [sha1cd.Size]byte) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var got [sha1cd.Size]byte
	if _, err := f.ReadAt(got[:], max(0, info.Size()-sha1cd.Size)); err != nil {
		return err
	}
	if got != want {
		return ErrTrailer
	}
	return nil
}

// ErrTrailer is the error for a pack with another checksum than its index.
var ErrTrailer = errors.New("pack and index do not belong together")
