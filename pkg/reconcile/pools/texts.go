package pools

import (
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// mostTexts bounds the texts that are known; beyond it, all are forgotten, and what has
// them keeps them. A pool has five of its own, and a rotation makes a few new ones.
const mostTexts = 1 << 17

// mostShared is the longest text that is taken to be in other objects too, in bytes.
const mostShared = 256

// Texts has every text once that cached objects have in common: the keys of annotations,
// and values such as a version, a commit, or the name of the pool of eight objects. Each
// is decoded on its own, which was more than a quarter of what the caches held. Its
// zero value is ready.
type Texts struct {
	mu   sync.Mutex
	of   map[string]string
	maps map[pairs]map[string]string
}

// pairs are a small map: keys and values, sorted by key.
type pairs [4]string

// Sharing has what a transform returns share its texts. Without one, it is what came.
func (t *Texts) Sharing(next toolscache.TransformFunc) toolscache.TransformFunc {
	return func(obj any) (any, error) {
		if next != nil {
			var err error
			if obj, err = next(obj); err != nil {
				return obj, err
			}
		}
		if meta, ok := obj.(metav1.Object); ok {
			t.share(meta)
		}
		return obj, nil
	}
}

// share makes the metadata of an object anew: with texts that others have too, and those
// of its own in one piece.
func (t *Texts) share(meta metav1.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var p piece
	p.note(meta.GetName())
	p.note(string(meta.GetUID()))
	p.note(meta.GetResourceVersion())
	for k, v := range meta.GetAnnotations() {
		if own(k) {
			p.note(v)
		}
	}
	meta.SetNamespace(t.one(meta.GetNamespace()))
	meta.SetName(p.cut(meta.GetName()))
	meta.SetUID(types.UID(p.cut(string(meta.GetUID()))))
	meta.SetResourceVersion(p.cut(meta.GetResourceVersion()))
	meta.SetLabels(t.mapped(meta.GetLabels(), nil))
	meta.SetAnnotations(t.mapped(meta.GetAnnotations(), &p))
}

// mapped is a map with the same texts, itself one that others have where it is small:
// it is for a cache, whose objects nobody writes.
func (t *Texts) mapped(in map[string]string, p *piece) map[string]string {
	if len(in) == 0 {
		return in
	}
	out := make(map[string]string, len(in))
	shared := len(in) <= len(pairs{})/2
	var key pairs
	for k, v := range in {
		switch k = t.one(k); {
		case p != nil && own(k):
			v, shared = p.cut(v), false
		case len(v) > mostShared:
			shared = false
		default:
			v = t.one(v)
		}
		out[k] = v
		if !shared {
			continue
		}
		if key[0] == "" && key[1] == "" {
			key[0], key[1] = k, v
		} else {
			key[2], key[3] = k, v
		}
	}
	if !shared {
		return out
	}
	if len(in) == 2 && key[2] < key[0] {
		key = pairs{key[2], key[3], key[0], key[1]}
	}
	if have, ok := t.maps[key]; ok && len(have) == len(in) {
		return have
	}
	if t.maps == nil || len(t.maps) >= mostTexts {
		t.maps = map[pairs]map[string]string{}
	}
	t.maps[key] = out
	return out
}

// piece is one text made of many: first each is noted, then each is cut out, in any order.
type piece struct {
	size int
	text strings.Builder
}

func (p *piece) note(s string) { p.size += len(s) }

func (p *piece) cut(s string) string {
	if p.text.Cap() == 0 {
		p.text.Grow(p.size)
	}
	p.text.WriteString(s)
	return p.text.String()[p.text.Len()-len(s):]
}

// one is the text that others have.
func (t *Texts) one(s string) string {
	if len(s) > mostShared {
		return s
	}
	if have, ok := t.of[s]; ok {
		return have
	}
	if t.of == nil || len(t.of) >= mostTexts {
		t.of = map[string]string{}
	}
	s = strings.Clone(s)
	t.of[s] = s
	return s
}

// own reports whether an annotation has a value that no other object has.
func own(key string) bool {
	switch key {
	case api.AnnotationDataDigest, api.AnnotationCredentialsDigest, api.AnnotationTokensDigest, api.AnnotationCredentialsExpireAt,
		api.AnnotationCredentialsRenewAt, api.AnnotationWaitingSince, api.AnnotationUserDataBytes, api.AnnotationRecord, api.AnnotationReplaces:
		return true
	}
	return false
}
