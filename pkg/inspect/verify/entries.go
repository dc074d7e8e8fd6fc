package verify

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// entry is one decoded text of a document: the content of a file, or a value.
// value, decoded.
type entry struct{ where, text string }

// wholeDocument is the place of a document that cannot be parsed.
const wholeDocument = "the document"

// entriesOf splits a cloud-config or an Ignition document. A document that cannot be parsed
// becomes one leaf.
func entriesOf(document []byte) []entry {
	var v any
	var err error
	if bytes.HasPrefix(document, []byte("{")) {
		err = json.Unmarshal(document, &v)
	} else {
		err = yaml.Unmarshal(document, &v)
	}
	if _, isMap := v.(map[string]any); err != nil || !isMap {
		return []entry{{wholeDocument, string(document)}}
	}
	f := entryCollector{seen: map[string]int{}}
	f.flattenValue("", v)
	return f.entries
}

// entryCollector flattens a document into entries with unique places.
type entryCollector struct {
	entries []entry
	seen    map[string]int
}

// add makes the places of entries unique, such as those of two files with one path.
func (f *entryCollector) add(where, text string) {
	f.seen[where]++
	if n := f.seen[where]; n > 1 {
		where = fmt.Sprintf("%s (number %d)", where, n)
	}
	f.entries = append(f.entries, entry{where, text})
}

// flattenValue adds an entry for each value in v, with its place below at.
func (f *entryCollector) flattenValue(at string, v any) {
	switch v := v.(type) {
	case map[string]any:
		path, isFile := v["path"].(string)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			switch {
			case isFile && (k == "content" || k == "contents"):
				f.add(fmt.Sprintf("file %q", path), contentOf(v))
			case isFile && k == "path": // it identifies the file
			case isFile:
				f.flattenValue(fmt.Sprintf("%s of file %q", k, path), v[k])
			default:
				f.flattenValue(strings.TrimPrefix(at+"."+k, "."), v[k])
			}
		}
	case []any:
		for i, item := range v {
			f.flattenValue(fmt.Sprintf("%s[%d]", at, i), item)
		}
	case nil:
		f.add(at, "")
	default:
		f.add(at, fmt.Sprint(v))
	}
}

// maxDecoded bounds the content of one file, in bytes. A Secret is smaller.
const maxDecoded = 4 << 20 // 4 MiB

// contentOf decodes the content of a file in either format. Content that cannot be decoded
// is returned unchanged.
func contentOf(file map[string]any) string {
	if contents, ok := file["contents"].(map[string]any); ok { // Ignition's
		source, _ := contents["source"].(string)
		text, isText := strings.CutPrefix(source, "data:,")
		if content, err := url.PathUnescape(text); isText && err == nil {
			return content
		}
		return formatOnOneLine(contents)
	}
	text, _ := file["content"].(string)
	switch file["encoding"] {
	case "b64", "base64":
		if raw, err := decodeBase64(text); err == nil {
			return string(raw)
		}
	case "gz+b64", "gzip+base64", "gz+base64", "gzip+b64":
		if raw, err := decodeBase64(text); err == nil {
			if content, err := unzip(raw); err == nil {
				return content
			}
		}
	}
	return text
}

func decodeBase64(text string) ([]byte, error) {
	return base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
}

func unzip(raw []byte) (string, error) {
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(r, maxDecoded))
	return string(b), err
}
