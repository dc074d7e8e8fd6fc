package delivery

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
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// While Git does not answer nothing is removed, new pools get their Secrets, and a controller
// that restarts, even without its mirrors, needs no access to Git. The status has the start and
// the cause of the outage, written once, and one event reports its end.
func TestOutage(t *testing.T) {
	s := newSystem(t)
	first := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Begin(first)
	s.Pool("before", "osp-a")
	before, _ := s.Served("before", "v1.0.0")

	began := time.Now().Truncate(time.Second)
	s.Git.Mode.Store("down")
	s.WaitRejected(api.ReasonUnreachable, "closed the connection", s.Git.URL)
	outage := s.ProfileSource()
	away := apimeta.FindStatusCondition(outage.Status.Conditions, meta.ReconcilingCondition)
	if away == nil || away.Status != metav1.ConditionTrue || away.LastTransitionTime.Time.Before(began) || !strings.Contains(away.Message, "closed the connection") {
		t.Fatalf("since when it is away is not told: %+v", outage.Status.Conditions)
	}
	second := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two")})

	s.Run("a pool that is made meanwhile", func(*testing.T) {
		s.Pool("during", "osp-a")
		s.Served("during", "v1.0.0")
	})
	s.Run("a controller that is restarted meanwhile, without its mirrors", func(t *testing.T) {
		s.Stop()
		s.Cache = t.TempDir()
		asked := s.Git.Seen.Load()
		s.Start()
		s.Pool("restarted", "osp-a")
		s.Served("restarted", "v1.0.0")
		s.Eventually("Git to be asked again", func() error {
			if s.Git.Seen.Load() < asked+2 {
				return errors.New("not yet")
			}
			return nil
		})
	})
	s.Run("what was there is as it was", func(t *testing.T) {
		if now := s.ProfileSource(); now.ResourceVersion != outage.ResourceVersion {
			t.Errorf("the same outage was written twice: %+v", now.Status)
		}
		if notes := about(s.Events("osps", api.EventSourceFailed), s.Git.URL); len(notes) != 1 {
			t.Errorf("it was told as %q", notes)
		}
		after, _, err := s.Secrets("before")
		if err != nil || after.ResourceVersion != before.ResourceVersion {
			t.Errorf("the pool's Secret was touched (err %v)", err)
		}
		if ps := s.ProfileSource(); !strings.HasSuffix(ps.Status.Revision, first) || s.Inventory()["osp-a"] != "v1.0.0" {
			t.Errorf("status is %+v", ps.Status)
		}
	})
	s.Run("the end of it", func(t *testing.T) {
		s.Git.Mode.Store("")
		s.Ready(second)
		for _, pool := range []string{"before", "during", "restarted"} {
			s.Served(pool, "v1.1.0")
		}
		if c := apimeta.FindStatusCondition(s.ProfileSource().Status.Conditions, meta.ReconcilingCondition); c != nil {
			t.Errorf("the outage stays in the status: %+v", c)
		}
	})
	s.Run("an outage in which nothing changes", func(t *testing.T) {
		s.Git.Mode.Store("500")
		s.WaitRejected(api.ReasonUnreachable, "500")
		s.Git.Mode.Store("")
		s.Ready(second)
		s.Eventually("the end to be told", func() error {
			if notes := about(s.Events("osps", api.EventSourceRecovered), second); len(notes) != 1 {
				return fmt.Errorf("it is told as %q", notes)
			}
			return nil
		})
	})
}

// Servers that accept connections and never answer delay their own sources and no others.
func TestSilentServers(t *testing.T) {
	s := newSystem(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for i := range 12 {
		s.Apply(map[string]any{
			"apiVersion": api.GroupVersion.String(), "kind": "ProfileSource",
			"metadata": map[string]any{"name": fmt.Sprintf("silent-%d", i), "namespace": e2e.Namespace},
			"spec": map[string]any{
				"git":      map[string]any{"url": fmt.Sprintf("http://%s/%d.git", silent.Addr(), i), "timeout": "1h"},
				"interval": "1m", "retryInterval": "1s",
			},
		})
	}
	s.Start()
	s.Builtin("osp-ubuntu")
	first := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Source()
	s.Ready(first)
	s.Ready(s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two")}))
}

// about picks the notes that hold a text: sources of other tests have the same name.
func about(notes []string, text string) []string {
	return slices.DeleteFunc(notes, func(note string) bool { return !strings.Contains(note, text) })
}
