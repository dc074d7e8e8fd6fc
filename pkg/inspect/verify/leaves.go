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

// leaf is one text of a document that a machine reads: the content of a file, or a
// value, decoded.
type leaf struct{ where, text string }

// wholeDocument is the place of a document that cannot be read.
const wholeDocument = "the document"

// leavesOf takes a document apart, a cloud-config or Ignition's. What cannot be read is
// one text.
func leavesOf(document []byte) []leaf {
	var v any
	var err error
	if bytes.HasPrefix(document, []byte("{")) {
		err = json.Unmarshal(document, &v)
	} else {
		err = yaml.Unmarshal(document, &v)
	}
	if _, isMap := v.(map[string]any); err != nil || !isMap {
		return []leaf{{wholeDocument, string(document)}}
	}
	f := flattening{seen: map[string]int{}}
	f.walk("", v)
	return f.leaves
}

type flattening struct {
	leaves []leaf
	seen   map[string]int
}

// add keeps places apart that are called the same, such as two files of one path.
func (f *flattening) add(where, text string) {
	f.seen[where]++
	if n := f.seen[where]; n > 1 {
		where = fmt.Sprintf("%s (number %d)", where, n)
	}
	f.leaves = append(f.leaves, leaf{where, text})
}

func (f *flattening) walk(at string, v any) {
	switch v := v.(type) {
	case map[string]any:
		path, isFile := v["path"].(string)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			switch {
			case isFile && (k == "content" || k == "contents"):
				f.add(fmt.Sprintf("file %q", path), contentOf(v))
			case isFile && k == "path": // it is its name
			case isFile:
				f.walk(fmt.Sprintf("%s of file %q", k, path), v[k])
			default:
				f.walk(strings.TrimPrefix(at+"."+k, "."), v[k])
			}
		}
	case []any:
		for i, item := range v {
			f.walk(fmt.Sprintf("%s[%d]", at, i), item)
		}
	case nil:
		f.add(at, "")
	default:
		f.add(at, fmt.Sprint(v))
	}
}

// maxDecoded bounds the content of one file, in bytes: a Secret holds less.
const maxDecoded = 4 << 20 // 4 MiB

// contentOf decodes the content of a file of either kind of document. What cannot be
// decoded stays as it is.
func contentOf(file map[string]any) string {
	if contents, ok := file["contents"].(map[string]any); ok { // Ignition's
		source, _ := contents["source"].(string)
		text, isText := strings.CutPrefix(source, "data:,")
		if content, err := url.PathUnescape(text); isText && err == nil {
			return content
		}
		return brief(contents)
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
