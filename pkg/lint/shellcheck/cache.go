package shellcheck

import (
	"crypto/sha256"
	"encoding/json"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/cache"
)

// cacheFormat is the version of the stored answers: other releases do not find them.
const cacheFormat = "2"

// Cache stores the comments on scripts in a folder, so that the next run checks only scripts that
// changed. It contains digests of scripts, not their text. It only saves time: a file that is
// missing, damaged or not writable does not matter, and those that no run has used for some days are
// removed. A nil Cache stores nothing. It is safe for concurrent use, also by several processes.
type Cache struct{ files *cache.Cache }

// OpenCache opens the cache in a folder, and creates the folder. It returns nil if other users
// can access the folder, or there can be none.
func OpenCache(dir string) *Cache {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil
	}
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return nil
	}
	files, err := cache.Open(dir)
	if err != nil {
		return nil
	}
	_ = files.Trim() // at most once a day
	return &Cache{files}
}

// cacheKey identifies an answer by all that it depends on.
func cacheKey(version string, args []string, content string) cache.ActionID {
	return sha256.Sum256([]byte(cacheFormat + "\x00" + version + "\x00" + strings.Join(args, "\x00") + "\x00\x00" + content))
}

func (c *Cache) get(key cache.ActionID) ([]comment, bool) {
	if c == nil {
		return nil, false
	}
	data, _, err := c.files.GetBytes(key)
	var comments []comment
	if err != nil || json.Unmarshal(data, &comments) != nil {
		return nil, false
	}
	return comments, true
}

func (c *Cache) add(key cache.ActionID, comments []comment) {
	if c == nil {
		return
	}
	if data, err := json.Marshal(comments); err == nil {
		_ = c.files.PutBytes(key, data)
	}
}
