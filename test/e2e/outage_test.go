package e2e

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// While Git is away nothing is taken back, pools that are made meanwhile get their
// Secrets, and a controller that is restarted, even without its mirrors, needs
// nothing of Git. The status says since when and why, written once, and the end is
// told once.
func TestOutage(t *testing.T) {
	s := newSystem(t)
	first := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")})
	s.begin(first)
	s.pool("before", "osp-a")
	before, _ := s.served("before", "v1.0.0")

	began := time.Now().Truncate(time.Second)
	s.git.mode.Store("down")
	s.refused(api.ReasonUnreachable, "closed the connection", s.git.url)
	outage := s.profileSource()
	away := apimeta.FindStatusCondition(outage.Status.Conditions, meta.ReconcilingCondition)
	if away == nil || away.Status != metav1.ConditionTrue || away.LastTransitionTime.Time.Before(began) || !strings.Contains(away.Message, "closed the connection") {
		t.Fatalf("since when it is away is not told: %+v", outage.Status.Conditions)
	}
	second := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.1.0", "echo two")})

	s.run("a pool that is made meanwhile", func(*testing.T) {
		s.pool("during", "osp-a")
		s.served("during", "v1.0.0")
	})
	s.run("a controller that is restarted meanwhile, without its mirrors", func(t *testing.T) {
		s.stop()
		s.cache = t.TempDir()
		asked := s.git.seen.Load()
		s.start()
		s.pool("restarted", "osp-a")
		s.served("restarted", "v1.0.0")
		s.eventually("Git to be asked again", func() error {
			if s.git.seen.Load() < asked+2 {
				return errors.New("not yet")
			}
			return nil
		})
	})
	s.run("what was there is as it was", func(t *testing.T) {
		if now := s.profileSource(); now.ResourceVersion != outage.ResourceVersion {
			t.Errorf("the same outage was written twice: %+v", now.Status)
		}
		if notes := about(s.notes("osps", api.EventSourceFailed), s.git.url); len(notes) != 1 {
			t.Errorf("it was told as %q", notes)
		}
		after, _, err := s.secrets("before")
		if err != nil || after.ResourceVersion != before.ResourceVersion {
			t.Errorf("the pool's Secret was touched (err %v)", err)
		}
		if ps := s.profileSource(); !strings.HasSuffix(ps.Status.Revision, first) || s.inventory()["osp-a"] != "v1.0.0" {
			t.Errorf("status is %+v", ps.Status)
		}
	})
	s.run("the end of it", func(t *testing.T) {
		s.git.mode.Store("")
		s.ready(second)
		for _, pool := range []string{"before", "during", "restarted"} {
			s.served(pool, "v1.1.0")
		}
		if c := apimeta.FindStatusCondition(s.profileSource().Status.Conditions, meta.ReconcilingCondition); c != nil {
			t.Errorf("the outage stays in the status: %+v", c)
		}
	})
	s.run("an outage in which nothing changes", func(t *testing.T) {
		s.git.mode.Store("500")
		s.refused(api.ReasonUnreachable, "500")
		s.git.mode.Store("")
		s.ready(second)
		s.eventually("the end to be told", func() error {
			if notes := about(s.notes("osps", api.EventSourceRecovered), second); len(notes) != 1 {
				return fmt.Errorf("it is told as %q", notes)
			}
			return nil
		})
	})
}

// Servers that take connections and say nothing keep their own sources waiting, and no
// other one.
func TestSilentServers(t *testing.T) {
	s := newSystem(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for i := range 12 {
		s.apply(map[string]any{
			"apiVersion": api.GroupVersion.String(), "kind": "ProfileSource",
			"metadata": map[string]any{"name": fmt.Sprintf("silent-%d", i), "namespace": namespace},
			"spec": map[string]any{
				"git":      map[string]any{"url": fmt.Sprintf("http://%s/%d.git", silent.Addr(), i), "timeout": "1h"},
				"interval": "1m", "retryInterval": "1s",
			},
		})
	}
	s.start()
	s.builtin("osp-ubuntu")
	first := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")})
	s.source()
	s.ready(first)
	s.ready(s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.1.0", "echo two")}))
}

// about picks the notes that hold a text: sources of other tests have the same name.
func about(notes []string, text string) []string {
	return slices.DeleteFunc(notes, func(note string) bool { return !strings.Contains(note, text) })
}
