package pools

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// The digest of what a Secret holds is known from its copy in the cache, whether the
// Secret says it, says another, or says nothing. client-go may transform an object twice:
// the second time changes nothing.
func TestCacheTransform(t *testing.T) {
	text := []byte("#cloud-config")
	digest := lineage.DataDigest(text)
	for name, c := range map[string]struct {
		annotated string
		data      map[string][]byte
		edited    bool
	}{
		"as it says":        {digest, map[string][]byte{api.UserDataKey: text}, false},
		"edited":            {lineage.DataDigest([]byte("before")), map[string][]byte{api.UserDataKey: text}, true},
		"without a digest":  {"", map[string][]byte{api.UserDataKey: text}, true},
		"with another key":  {digest, map[string][]byte{api.UserDataKey: text, "more": nil}, false},
		"under another key": {digest, map[string][]byte{"more": text}, true},
		"without data":      {digest, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			in := &corev1.Secret{Data: c.data}
			if c.annotated != "" {
				in.Annotations = map[string]string{api.AnnotationDataDigest: c.annotated}
			}
			want := map[string]string{"absent": ""}
			for key, value := range c.data {
				want[key] = lineage.DataDigest(value)
			}
			for range 2 {
				out, err := DigestSecretsAndTrim(in)
				if err != nil {
					t.Fatal(err)
				}
				in = out.(*corev1.Secret)
				for key, digest := range want {
					if got := digestIn(in, key); got != digest {
						t.Errorf("what is under %q has the digest %q, want %q", key, got, digest)
					}
				}
				if got := isEdited(in, api.UserDataKey); got != c.edited {
					t.Errorf("it is said to be edited: %t, want %t", got, c.edited)
				}
				if got := len(in.Data); got != len(c.data) {
					t.Errorf("it has %d keys, want %d", got, len(c.data))
				}
			}
		})
	}

	getter, err := DigestSecretsAndTrim(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: api.SecretGetterToken}, Data: map[string][]byte{"token": []byte("t")}})
	if err != nil || string(getter.(*corev1.Secret).Data["token"]) != "t" {
		t.Errorf("the getter's token is gone (err %v)", err)
	}
}
