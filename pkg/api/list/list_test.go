package list_test

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// fill sets every exported field to a value that is not its zero value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		item, key := reflect.New(v.Type().Elem()).Elem(), reflect.New(v.Type().Key()).Elem()
		fill(item)
		v.SetMapIndex(key, item)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[metav1.Time]() || v.Type() == reflect.TypeFor[metav1.FieldsV1]() {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.String:
		v.SetString("x")
	}
}

// shared returns the path of the first thing that two values share, "" for none.
func shared(a, b reflect.Value, path string) string {
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() {
			return ""
		}
		if a.Pointer() == b.Pointer() && a.Type().Elem().Size() > 0 {
			return path
		}
		return shared(a.Elem(), b.Elem(), path)
	case reflect.Slice:
		if a.Len() == 0 {
			return ""
		}
		if a.Pointer() == b.Pointer() {
			return path
		}
		return shared(a.Index(0), b.Index(0), path+"[0]")
	case reflect.Map:
		if a.Len() > 0 && a.Pointer() == b.Pointer() {
			return path
		}
	case reflect.Struct:
		for i := range a.NumField() {
			if field := a.Type().Field(i); field.IsExported() && a.Type() != reflect.TypeFor[metav1.Time]() {
				if at := shared(a.Field(i), b.Field(i), path+"."+field.Name); at != "" {
					return at
				}
			}
		}
	}
	return ""
}

// Copies share nothing with the original.
func TestCopies(t *testing.T) {
	for _, obj := range []runtime.Object{
		&cluster.MachineDeploymentList{}, &cluster.MachineSetList{}, &cluster.MachineList{},
		&api.ProfileSourceList{}, &api.NodeProvenanceList{}, &api.BootReportList{},
		&osm.OperatingSystemProfileList{}, &osm.OperatingSystemConfigList{}, &osm.CustomOperatingSystemProfileList{},
	} {
		fill(reflect.ValueOf(obj).Elem())
		made := obj.DeepCopyObject()
		if !reflect.DeepEqual(obj, made) {
			t.Errorf("%T: the copy differs", obj)
		}
		if at := shared(reflect.ValueOf(obj), reflect.ValueOf(made), ""); at != "" {
			t.Errorf("%T and its copy share %s", obj, at)
		}
	}
}
