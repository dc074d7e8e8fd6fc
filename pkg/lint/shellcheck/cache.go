package shellcheck

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// cacheName has the version of the file's format: other releases ignore it.
const cacheName = "shellcheck-1.json"

// maxCacheBytes limits the file, which every run reads: about 10,000 scripts without comments.
const maxCacheBytes = 1 << 20

// Cache stores the comments on scripts in one file of a folder, so that the next run checks only
// scripts that changed. It contains digests of scripts, not their text. It only saves time: a
// file that is missing, invalid or not writable is no error. A nil Cache stores nothing. It is
// safe for concurrent use, also by several processes.
type Cache struct {
	dir string

	mu     sync.Mutex
	stored map[string][]comment
	// used are the keys that this run looked up or added, in this order, with repetitions.
	used []string
	// changed: there is something to write.
	changed bool
}

// cached is an answer; in the file, the ones used last come last.
type cached struct {
	Key      string    `json:"key"`
	Comments []comment `json:"comments,omitempty"`
}

// OpenCache reads the cache in a folder, and creates the folder. It returns nil if other users
// can access the folder, or there can be none.
func OpenCache(dir string) *Cache {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil
	}
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return nil
	}
	c := &Cache{dir: dir, stored: map[string][]comment{}}
	for _, s := range c.read() {
		c.stored[s.Key] = s.Comments
	}
	return c
}

// read returns the content of the file; nothing if it is invalid.
func (c *Cache) read() []cached {
	f, err := os.Open(filepath.Join(c.dir, cacheName))
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxCacheBytes+1))
	if err != nil || len(data) > maxCacheBytes {
		return nil
	}
	var out []cached
	if json.Unmarshal(data, &out) != nil {
		return nil
	}
	return out
}

// cacheKey identifies an answer by all that it depends on. The version of the format is in the
// file's name.
func cacheKey(version string, args []string, content string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(version+"\x00"+strings.Join(args, "\x00")+"\x00\x00"+content)))
}

func (c *Cache) get(key string) ([]comment, bool) {
	if c == nil {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	comments, ok := c.stored[key]
	if ok {
		c.used = append(c.used, key)
	}
	return comments, ok
}

func (c *Cache) add(key string, comments []comment) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored[key] = comments
	c.used = append(c.used, key)
	c.changed = true
}

// save writes what was added. What another process wrote meanwhile stays, up to the limit;
// beyond it, the answers that were not used for the longest time are dropped.
func (c *Cache) save() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.changed {
		return
	}
	last := map[string]int{} // use of each key
	for i, key := range c.used {
		last[key] = i
	}
	all := slices.DeleteFunc(c.read(), func(s cached) bool { _, used := last[s.Key]; return used })
	for i, key := range c.used {
		if last[key] == i {
			all = append(all, cached{Key: key, Comments: c.stored[key]})
		}
	}
	if data := encodeWithinLimit(all); data != nil && replaceFile(filepath.Join(c.dir, cacheName), data) == nil {
		c.changed = false
	}
}

// encodeWithinLimit drops the first answers until the others fit.
func encodeWithinLimit(all []cached) []byte {
	for {
		data, err := json.Marshal(all)
		if err != nil {
			return nil
		}
		if len(data) <= maxCacheBytes {
			return data
		}
		all = all[(len(all)+3)/4:] // a quarter at a time, so that the next runs need not drop any
	}
}

// replaceFile writes a file that only this user can read, at once.
func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "incoming-")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
