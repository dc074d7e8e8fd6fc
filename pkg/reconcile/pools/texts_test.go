package pools

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

func sharedSecret(i int) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: fmt.Sprintf("secret-%d", i), UID: types.UID(fmt.Sprintf("uid-%d", i)), ResourceVersion: fmt.Sprint(i),
			Labels: map[string]string{api.LabelManagedBy: api.FieldManager},
			Annotations: map[string]string{
				api.AnnotationVersion: "v1.0.0", api.AnnotationDataDigest: fmt.Sprintf("sha256:%d", i), "": "",
			},
		},
		Data: map[string][]byte{"a": []byte("b")},
	}
}

// Objects stay what they are; what they have in common is in memory once.
func TestTextsSharing(t *testing.T) {
	var texts Texts
	share := texts.Sharing(nil)
	var kept []*corev1.Secret
	for i := 1; i <= 3; i++ {
		got, err := share(sharedSecret(i))
		if err != nil || !reflect.DeepEqual(got, sharedSecret(i)) {
			t.Fatalf("%+v becomes %+v (err %v)", sharedSecret(i), got, err)
		}
		kept = append(kept, got.(*corev1.Secret))
	}
	at := func(s *corev1.Secret) *byte { return unsafe.StringData(s.Annotations[api.AnnotationVersion]) }
	if at(kept[0]) != at(kept[2]) {
		t.Error("the version is in memory twice")
	}
	same := func(a, b map[string]string) bool { return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() }
	if !same(kept[0].Labels, kept[1].Labels) || same(kept[0].Annotations, kept[1].Annotations) {
		t.Error("labels that are equal are in memory twice, or annotations that differ once")
	}
	for _, m := range []map[string]string{{"a": "b"}, {"a": "b", "": ""}, {"a": "b", "c": "d"}, {"a": "d", "c": "b"}, {"": "", "a": ""}, {}, nil} {
		for range 4 {
			got, err := share(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(m), Annotations: maps.Clone(m)}})
			if s := got.(*corev1.Secret); err != nil || !reflect.DeepEqual(s.Labels, m) || !reflect.DeepEqual(s.Annotations, m) {
				t.Errorf("%v becomes %v and %v (err %v)", m, s.Labels, s.Annotations, err)
			}
		}
	}
	bare, err := share(&corev1.Secret{})
	if err != nil || !reflect.DeepEqual(bare, &corev1.Secret{}) {
		t.Errorf("nothing becomes %+v (err %v)", bare, err)
	}
	if got, err := share("no object"); err != nil || got != "no object" {
		t.Errorf("what is no object becomes %v (err %v)", got, err)
	}
	broken := errors.New("broken")
	if _, err := texts.Sharing(func(any) (any, error) { return nil, broken })(sharedSecret(1)); !errors.Is(err, broken) {
		t.Errorf("an error of the transform is %v", err)
	}
}

// What is remembered is bounded, whatever objects bring.
func TestTextsAreBounded(t *testing.T) {
	var texts Texts
	for i := range mostTexts + 10 {
		if got := texts.one(fmt.Sprint(i)); got != fmt.Sprint(i) {
			t.Fatalf("%d becomes %q", i, got)
		}
	}
	if len(texts.of) > mostTexts {
		t.Errorf("%d are remembered", len(texts.of))
	}
	before := len(texts.of)
	texts.one(string(make([]byte, mostShared+1)))
	if len(texts.of) != before {
		t.Error("a long text is remembered")
	}
}
