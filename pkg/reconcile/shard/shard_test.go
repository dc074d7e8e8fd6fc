package shard_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/osm-gitops/osm-gitops/pkg/reconcile/shard"
)

func TestEveryObjectHasOneShard(t *testing.T) {
	selectors := []string{"!gitops.k8c.io/shard", "gitops.k8c.io/shard=a", "gitops.k8c.io/shard in (b, c)"}
	for label, want := range map[string]int{"": 0, "a": 1, "b": 2, "c": 2} {
		obj := labelled(label)
		for i, selector := range selectors {
			s := parse(t, selector)
			if got := s.Includes(obj); got != (i == want) {
				t.Errorf("shard %q holds an object with label %q: %v", selector, label, got)
			}
		}
		if !parse(t, "").Includes(obj) {
			t.Errorf("no selector leaves out an object with label %q", label)
		}
	}
}

func TestLeases(t *testing.T) {
	const name = "operating-system-manager"
	for selector, want := range map[string]string{
		"":                      name,
		"!gitops.k8c.io/shard":  name, // excludes a controller without shards
		"gitops.k8c.io/shard=a": name + "-shard-",
	} {
		got := parse(t, selector).LeaseName(name)
		if rest, ok := strings.CutPrefix(got, want); !ok || (want != name) != (len(rest) == 8) {
			t.Errorf("the lease of shard %q is %s", selector, got)
		}
	}
	if a, b := parse(t, "x=1").LeaseName(name), parse(t, "x=2").LeaseName(name); a == b {
		t.Errorf("two shards have one lease, %s", a)
	}
}

func TestRefused(t *testing.T) {
	_, err := shard.Parse("gitops.k8c.io/shard=a b")
	if err == nil || !strings.Contains(err.Error(), "write one such as") {
		t.Fatalf("error %v", err)
	}
}

func TestMoved(t *testing.T) {
	moved := parse(t, "gitops.k8c.io/shard=a").MembershipChanged()
	for _, c := range []struct {
		before, after string
		want          bool
	}{{"", "a", true}, {"a", "b", true}, {"a", "a", false}, {"", "b", false}} {
		if got := moved.Update(event.UpdateEvent{ObjectOld: labelled(c.before), ObjectNew: labelled(c.after)}); got != c.want {
			t.Errorf("from %q to %q: %v", c.before, c.after, got)
		}
	}
}

func parse(t *testing.T, selector string) shard.Shard {
	t.Helper()
	s, err := shard.Parse(selector)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func labelled(value string) *corev1.ConfigMap {
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{}}
	if value != "" {
		obj.Labels = map[string]string{"gitops.k8c.io/shard": value}
	}
	return obj
}
