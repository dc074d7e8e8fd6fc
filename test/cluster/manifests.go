package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/test/program"
)

// FieldManager owns what Apply writes: like Flux, and unlike our controller.
const FieldManager = "cluster-apply"

// establishTimeout bounds the wait for a CustomResourceDefinition to be served.
const establishTimeout = 30 * time.Second

// goneTimeout bounds the wait for a CustomResourceDefinition to be gone.
const goneTimeout = time.Minute

// CRDs are the directories below the repository's root whose manifests Install
// applies: our own kinds, and machine-controller's for tests.
var CRDs = []string{"deploy/crds", "test/crds"}

// Install applies the CustomResourceDefinitions of CRDs that have these plural names, or all of them.
func (c *Cluster) Install(ctx context.Context, kinds ...string) error {
	root, err := program.Root()
	if err != nil {
		return err
	}
	var all []*unstructured.Unstructured
	for _, dir := range CRDs {
		found, err := readManifests(filepath.Join(root, dir))
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	if len(kinds) == 0 {
		return c.ApplyObjects(ctx, all...)
	}
	selected := slices.DeleteFunc(all, func(crd *unstructured.Unstructured) bool {
		kind, _, _ := strings.Cut(crd.GetName(), ".")
		return !slices.Contains(kinds, kind)
	})
	if len(selected) != len(kinds) {
		return fmt.Errorf("%d of the kinds %q are in %q", len(selected), kinds, CRDs)
	}
	return c.ApplyObjects(ctx, selected...)
}

// Uninstall deletes the CustomResourceDefinitions for which doomed returns true, and returns when
// they and the objects of their kinds are deleted.
//
// It reads the kinds first. If no client has read a kind, kube-apiserver cannot list its objects
// when it has to delete them ("storage is (re)initializing"). If its next attempt then sees its
// own earlier write of the CustomResourceDefinition, it treats the conflict as a change by another
// client and waits until its informers resync, five minutes
// (k8s.io/apiextensions-apiserver v0.36.3, pkg/controller/finalizer and pkg/apiserver).
func (c *Cluster) Uninstall(ctx context.Context, doomed func(*apiextensionsv1.CustomResourceDefinition) bool) error {
	cl, err := c.NewClient()
	if err != nil {
		return err
	}
	var crds apiextensionsv1.CustomResourceDefinitionList
	if err := cl.List(ctx, &crds); err != nil {
		return err
	}
	crds.Items = slices.DeleteFunc(crds.Items, func(crd apiextensionsv1.CustomResourceDefinition) bool { return !doomed(&crd) })
	for i := range crds.Items {
		crd := &crds.Items[i]
		var objects metav1.PartialObjectMetadataList
		served := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served })
		if served < 0 {
			return fmt.Errorf("%q serves no version", crd.Name)
		}
		objects.SetGroupVersionKind(schema.GroupVersionKind{Group: crd.Spec.Group, Version: crd.Spec.Versions[served].Name, Kind: crd.Spec.Names.ListKind})
		if err := client.IgnoreNotFound(cl.List(ctx, &objects)); err != nil {
			return fmt.Errorf("reading objects of %q: %w", crd.Name, err)
		}
		if err := client.IgnoreNotFound(cl.Delete(ctx, crd)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	for i := range crds.Items {
		crd := &crds.Items[i]
		for {
			err := cl.Get(ctx, client.ObjectKeyFromObject(crd), crd)
			if apierrors.IsNotFound(err) {
				break
			}
			if err != nil {
				return fmt.Errorf("waiting for CustomResourceDefinition %q to be gone: %w", crd.Name, err)
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("waiting for CustomResourceDefinition %q to be gone: %w: %v", crd.Name, ctx.Err(), crd.Status.Conditions)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return nil
}

// Apply writes manifests by server-side apply: files, or directories with their .yaml files in
// order of name. CustomResourceDefinitions and Namespaces are first, and Apply waits until the
// former are served. Objects without a namespace are created in the one that their kind requires,
// not in "default".
func (c *Cluster) Apply(ctx context.Context, paths ...string) error {
	var objects []*unstructured.Unstructured
	for _, path := range paths {
		found, err := readManifests(path)
		if err != nil {
			return err
		}
		objects = append(objects, found...)
	}
	return c.ApplyObjects(ctx, objects...)
}

// ApplyObjects is Apply for objects that were read or built elsewhere.
func (c *Cluster) ApplyObjects(ctx context.Context, objects ...*unstructured.Unstructured) error {
	cl, err := c.NewClient()
	if err != nil {
		return err
	}
	objects = append([]*unstructured.Unstructured(nil), objects...)
	sort.SliceStable(objects, func(i, j int) bool { return rank(objects[i]) < rank(objects[j]) })
	waited := false
	for _, o := range objects {
		if rank(o) == 2 && !waited { // every definition has been written by now
			if err := awaitEstablished(ctx, cl, objects); err != nil {
				return err
			}
			waited = true
		}
		apply := client.ApplyConfigurationFromUnstructured(o)
		if err := cl.Apply(ctx, apply, client.FieldOwner(FieldManager), client.ForceOwnership); err != nil {
			return fmt.Errorf("applying %s %q: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return awaitEstablished(ctx, cl, objects)
}

// rank orders kinds: what others need to exist comes first.
func rank(o *unstructured.Unstructured) int {
	switch o.GetKind() {
	case "CustomResourceDefinition":
		return 0
	case "Namespace":
		return 1
	}
	return 2
}

func readManifests(path string) ([]*unstructured.Unstructured, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(path, "*.yaml")); err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s holds no .yaml files", path)
		}
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		found, err := decode(b)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

func decode(b []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(b), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := d.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(o.Object) > 0 { // a document of comments only
			objects = append(objects, o)
		}
	}
}

func awaitEstablished(ctx context.Context, cl client.Client, objects []*unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, establishTimeout)
	defer cancel()
	for _, o := range objects {
		if rank(o) != 0 {
			continue
		}
		for {
			var crd apiextensionsv1.CustomResourceDefinition
			if err := cl.Get(ctx, client.ObjectKeyFromObject(o), &crd); err != nil {
				return fmt.Errorf("waiting for CustomResourceDefinition %q: %w", o.GetName(), err)
			}
			ok, why := established(&crd)
			if ok {
				// The server lists an established kind a moment later, and until then the client has
				// no resource for it.
				err := discovered(cl, &crd)
				if err == nil {
					break
				}
				why = err.Error()
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("waiting for CustomResourceDefinition %q: %w: %s", o.GetName(), ctx.Err(), why)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return nil
}

// discovered returns an error while the client's mapping of kinds lacks a served version of crd.
func discovered(cl client.Client, crd *apiextensionsv1.CustomResourceDefinition) error {
	for _, version := range crd.Spec.Versions {
		if !version.Served {
			continue
		}
		kind := schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
		if _, err := cl.RESTMapper().RESTMapping(kind, version.Name); err != nil {
			return err
		}
	}
	return nil
}

func established(crd *apiextensionsv1.CustomResourceDefinition) (ok bool, why string) {
	var problems []string
	for _, c := range crd.Status.Conditions {
		switch {
		case c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue:
			ok = true
		case c.Status != apiextensionsv1.ConditionTrue || c.Type == apiextensionsv1.NonStructuralSchema:
			problems = append(problems, fmt.Sprintf("%s: %s", c.Type, c.Message))
		}
	}
	return ok, strings.Join(problems, "; ")
}
