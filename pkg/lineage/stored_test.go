package lineage

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// archive has the data of ControllerRevisions in the namespace "osm" by name. An unreadable one is nil.
type archive map[string][]byte

var errUnreadable = errors.New("no answer")

func (a archive) Find(_ context.Context, ref Reference, obj Object) (bool, error) {
	data, found := a[ref.Name]
	switch {
	case !found || ref.Namespace != "osm" || ref.UID != "":
		return false, nil
	case data == nil:
		return false, errUnreadable
	}
	revision := obj.(*appsv1.ControllerRevision)
	revision.Name, revision.Data = ref.Name, runtime.RawExtension{Raw: data}
	return true, nil
}

func TestFindArchivedRecord(t *testing.T) {
	rec := record(t, "v1")
	text, err := render.MarshalRecord(rec)
	if err != nil {
		t.Fatal(err)
	}
	pool, digest := types.NamespacedName{Namespace: "shop", Name: "web"}, rec.Digests.Input
	names := RecordNames(pool, digest)
	foreign := []byte(`{"object":"osp-x"}`)
	for name, c := range map[string]struct {
		in   archive
		want string // name of the object
		err  error
	}{
		"the first name":                           {archive{names[0]: text, names[1]: text}, names[0], nil},
		"another object has the first name":        {archive{names[0]: foreign, names[1]: text}, names[1], nil},
		"another object has no record":             {archive{names[0]: []byte("{"), names[1]: text}, names[1], nil},
		"none":                                     {archive{names[0]: foreign}, "", nil},
		"after an error it could be the other one": {archive{names[0]: nil, names[1]: text}, "", errUnreadable},
	} {
		t.Run(name, func(t *testing.T) {
			stored, err := FindArchivedRecord(t.Context(), c.in, "osm", pool, digest, func(s *StoredRecord) bool { return s.IsIntactOf(digest) })
			got := ""
			if stored != nil {
				got = stored.Holder().GetName()
			}
			if got != c.want || !errors.Is(err, c.err) {
				t.Errorf("got %q and error %v, want %q and %v", got, err, c.want, c.err)
			}
		})
	}
}
