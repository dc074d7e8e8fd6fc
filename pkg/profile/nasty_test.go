package profile

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/test/profiletest"
)

// security.md 11: any file takes bounded time and memory, and is either a profile or a
// Problem with the file's name.
func TestNastyFiles(t *testing.T) {
	const mebibyte = 1 << 20
	for name, c := range map[string]struct{ file, says string }{
		"10 MB":                         {profiletest.Small + strings.Repeat("# padding\n", mebibyte), "f.yaml: has "},
		"100,000 documents":             {profiletest.Small + strings.Repeat("---\n{}\n", 100_000), "more problems follow"},
		"100,000 documents of nothing":  {profiletest.Small + strings.Repeat("---\n", 100_000), "has more than 256 documents"},
		"a byte order mark":             {"\ufeff" + profiletest.Small, ""},
		"lines that end as on Windows":  {strings.ReplaceAll(profiletest.Small, "\n", "\r\n"), ""},
		"UTF-16":                        {"\xff\xfea\x00:\x00", "f.yaml:1: is not UTF-8 text"},
		"a NUL":                         {profiletest.Small + "\x00", "is not UTF-8 text"},
		"an alias bomb":                 {bomb(), "once its aliases are expanded"},
		"lists in lists in a line":      {profiletest.Small + "nothing: " + strings.Repeat("[", 300_000), "f.yaml"},
		"mappings in mappings in lines": {profiletest.Small + "nothing:\n" + nested(1000), "f.yaml"},
		"a key of half a mebibyte":      {profiletest.Small + strings.Repeat("k", mebibyte/2) + ": 1\n", "f.yaml"},
		"half a million keys":           {profiletest.Small + "nothing: {" + strings.Repeat("a,", mebibyte/4) + "}\n", "f.yaml"},
		"a number without end":          {strings.Replace(profiletest.Small, "755", strings.Repeat("9", 100_000), 1), "f.yaml:17: spec.bootstrapConfig.files[0].permissions"},
		"a tag that makes objects":      {strings.Replace(profiletest.Small, "version: v1.0.0", "version: !!python/object:os.system v1.0.0", 1), "f.yaml"},
		"merged keys":                   {strings.Replace(profiletest.Small, "  - name: aws\n", "  - &a {name: aws}\n  - {<<: *a, name: gce}\n", 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			begin := time.Now()
			_, err := Decode("f.yaml", []byte(c.file))
			took := time.Since(begin)
			runtime.ReadMemStats(&after)
			switch {
			case c.says == "" && err != nil:
				t.Error(err)
			case c.says != "" && err == nil:
				t.Error("it was accepted")
			case err != nil && (!strings.Contains(err.Error(), c.says) || len(err.Error()) > maxErrorBytes || len(strictyaml.Problems(err)) == 0):
				text := err.Error()
				t.Errorf("%d problems in %d bytes: %s", len(strictyaml.Problems(err)), len(text), text[:min(len(text), 1000)])
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 512*mebibyte || took > 20*time.Second {
				t.Errorf("it took %s and %d MiB", took, used/mebibyte)
			} else {
				t.Logf("%s, %d MiB", took, used/mebibyte)
			}
		})
	}
}

// nested are mappings in mappings, each in a line of its own.
func nested(levels int) string {
	var b strings.Builder
	for i := range levels {
		b.WriteString(strings.Repeat(" ", i+1) + "a:\n")
	}
	return b.String()
}
