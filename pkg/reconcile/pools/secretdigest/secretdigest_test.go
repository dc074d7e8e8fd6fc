package secretdigest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
)

// server has at most one Secret.
type server struct {
	client.Client
	stored *corev1.Secret
	reads  int
}

func (s *server) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.reads++
	if s.stored == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	s.stored.DeepCopyInto(into.(*corev1.Secret))
	return nil
}

func (s *server) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	if s.stored != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "secrets"}, obj.GetName())
	}
	s.stored = obj.(*corev1.Secret)
	return nil
}

// All pools get the same key, and one of them reads, generates and stores it. If another controller
// stores one first, that one is read.
func TestKey(t *testing.T) {
	for name, lost := range map[string]bool{"no other controller": false, "another controller stores its key first": true} {
		t.Run(name, func(t *testing.T) {
			s, key := &server{}, &Key{}
			for range 2 {
				if value, stored, err := key.Read(t.Context(), s, "system"); value != nil || stored || err != nil {
					t.Fatalf("read %x, stored %v, error %v", value, stored, err)
				}
			}
			first, _, err := key.Generate(rand.Reader)
			if err != nil || len(first) != KeySize {
				t.Fatalf("generated %x, error %v", first, err)
			}
			if second, stored, err := key.Generate(rand.Reader); !bytes.Equal(first, second) || stored || err != nil {
				t.Errorf("a second pool has %x instead of %x, stored %v, error %v", second, first, stored, err)
			}
			want := first
			if lost {
				want = bytes.Repeat([]byte{1}, KeySize)
				s.stored = &corev1.Secret{Data: map[string][]byte{keyDataKey: want}}
			}
			if err := key.StoreInSecret(t.Context(), s, "system", first); errors.Is(err, fault.ErrRaced) != lost || !lost && err != nil {
				t.Errorf("storing: %v", err)
			}
			reads := 1
			if lost {
				reads = 2
			}
			if got, stored, err := key.Read(t.Context(), s, "system"); !bytes.Equal(got, want) || !stored || err != nil || s.reads != reads {
				t.Errorf("read %x, want %x, stored %v, error %v, with %d requests", got, want, stored, err, s.reads)
			}
		})
	}
}

// A key that a pool generates after a write has failed remains: the next read must not drop it.
func TestGeneratedAfterFailedWrite(t *testing.T) {
	s, key := &server{stored: &corev1.Secret{}}, &Key{}
	if err := key.StoreInSecret(t.Context(), s, "system", nil); err == nil {
		t.Fatal("a Secret that exists is created")
	}
	s.stored = nil
	want, _, err := key.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if got, stored, err := key.Read(t.Context(), s, "system"); !bytes.Equal(got, want) || stored || err != nil {
		t.Errorf("read %x, want %x, stored %v, error %v", got, want, stored, err)
	}
}
