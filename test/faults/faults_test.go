package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// long is a number for CI, and one for `make soak`.
func long(ci, all int) int {
	if soak {
		return all
	}
	return ci
}

// The controller can be killed between any two writes: the next process continues.
func TestKilledBetweenWrites(t *testing.T) {
	for name, do := range map[string]func(f *fleet){
		"creating": (*fleet).create,
		"rotating": (*fleet).push,
		"moving":   (*fleet).upgrade, // to another template
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 1)
			if name != "creating" {
				p := f.start()
				f.create()
				f.settle()
				p.Stop()
			}
			kills := 0
			for n := 1; ; n += long(3, 1) {
				for _, late := range []bool{false, true} {
					if name == "creating" {
						f.pools = []string{fmt.Sprintf("pool-%03d-%t", n, late)}
					}
					if !f.killedAt(n, late, do) {
						t.Logf("%d kills", kills)
						if kills < 2 {
							t.Error("that is too few")
						}
						return
					}
					kills++
				}
			}
		})
	}
}

// killedAt does something and kills the controller at its n-th write for that. It
// reports whether there was one.
func (f *fleet) killedAt(n int, late bool, do func(f *fleet)) bool {
	f.t.Helper()
	p := f.start()
	defer func() { f.running.Stop() }()
	f.gate.arm(n, late, p.Kill)
	do(f)
	if f.quiet(p) { // fewer writes than that were needed
		written := f.gate.disarm()
		f.settle()
		return written == 0
	}
	f.gate.disarm()
	f.start()
	f.settle()
	return true
}

// quiet waits until every pool has what it should have and nothing was written for a while after
// that, or until the controller has ended, which makes it false.
func (f *fleet) quiet(p *testenv.Process) bool {
	f.t.Helper()
	const still = 1500 * time.Millisecond // longer than the controller takes between two writes
	writes, since := -1, time.Now()
	f.must(testenv.Until(f.t.Context(), patience, "every pool is at "+f.version()+" and nothing more is written", func() error {
		if ended(p) {
			return nil
		}
		if now := f.gate.written(); now != writes {
			writes, since = now, time.Now()
		}
		if err := f.behind(); err != nil {
			return err
		}
		if time.Since(since) < still {
			return errors.New("something was written just now")
		}
		return nil
	}))
	return !ended(p)
}

// The controller is killed at random moments of a rotation, and the API server too.
func TestKilledDuringRotation(t *testing.T) {
	f := newFleet(t, long(20, 300))
	f.start()
	f.create()
	f.settle()
	kills := long(3, 50)
	for i := range kills {
		f.push()
		wait := time.Duration(rand.IntN(long(1500, 6000))) * time.Millisecond
		time.Sleep(wait) // until a random moment of the rotation
		f.running.Kill()
		f.start()
		if i%10 == 9 || i == kills-1 {
			f.settle()
		}
	}
	t.Logf("%d kills in rotations of %d pools", kills, len(f.pools))
}

// The API server is killed while pools are created, and comes back by itself.
func TestAPIServerKilled(t *testing.T) {
	f := newFleet(t, long(40, 300))
	f.start()
	kills := long(2, 4)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range kills {
			time.Sleep(700 * time.Millisecond) // until a moment between two pools
			if err := f.cluster.KillAPIServer(); err != nil {
				t.Error(err)
			}
			time.Sleep(3 * time.Second) // the API server comes back, and more pools are created
		}
	}()
	f.create()
	<-ended
	f.settle()
	f.push()
	f.must(f.cluster.KillAPIServer())
	f.settle()
}

// Both are killed in one rotation.
func TestBothKilled(t *testing.T) {
	f := newFleet(t, long(20, 300))
	f.start()
	f.create()
	f.settle()
	for i := range long(2, 20) {
		f.push()
		time.Sleep(time.Duration(300+200*i) * time.Millisecond) // later in the rotation each time
		f.killAPIServer()
		f.running.Kill()
		f.start()
	}
	f.settle()
}

// Others write at the same time: the pools, and what was made for them.
func TestConflictingEdits(t *testing.T) {
	f := newFleet(t, long(15, 100))
	f.start()
	f.create()
	f.settle()
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	others.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			pool := f.pools[i%len(f.pools)]
			f.edit(ctx, &machines.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: pool}}, fmt.Sprintf(`{"metadata":{"annotations":{"example.com/note":"%d"}}}`, i))
			for _, suffix := range []string{bootstrapSuffix, provisioningSuffix} {
				f.edit(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: pool + "-" + f.namespace + suffix}},
					fmt.Sprintf(`{"metadata":{"annotations":{"example.com/note":"%d"}}}`, i))
			}
		}
	})
	for range long(2, 10) {
		f.push()
		f.upgrade()
	}
	cancel()
	others.Wait()
	f.settle()
}

// edit merges into an object and ignores errors.
func (f *fleet) edit(ctx context.Context, obj client.Object, patch string) {
	if err := f.client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil && ctx.Err() == nil {
		f.t.Errorf("editing %T %s: %v", obj, obj.GetName(), err)
	}
}

// A replica takes over when the one that writes is killed, or stopped.
func TestReplicaTakesOver(t *testing.T) {
	f := newFleet(t, long(15, 100))
	f.flags = append(f.flags, "--leader-elect=true")
	first := f.start()
	f.create()
	f.settle()
	second := f.start()
	f.push()
	time.Sleep(time.Second) // until a moment of the rotation
	first.Kill()
	f.settle()
	third := f.start()
	f.push()
	second.Stop()
	f.settle()
	if ended(third) {
		t.Error("the third replica ended")
	}
}

// The storage of the API server takes no writes for a while.
func TestStorageStopped(t *testing.T) {
	f := newFleet(t, long(20, 100))
	f.start()
	f.create()
	f.settle()
	f.push()
	time.Sleep(500 * time.Millisecond) // until a moment of the rotation
	resume, err := f.cluster.StopStorage()
	f.must(err)
	time.Sleep(time.Duration(long(4, 10)) * time.Second) // writes fail meanwhile
	f.must(resume())
	f.settle()
}
