package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// pools names pools 0 to n-1.
func poolNames(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = poolName(i)
	}
	return out
}

// cost is what the controller and the API server needed for something.
type cost struct {
	cpu   time.Duration // of the controller
	count counters
	load  load
}

// meter starts a measurement; the returned function ends it. Counting itself costs the controller
// CPU that grows with the pools, and is excluded.
func (b *bench) meter(ctx context.Context) (func() (cost, error), error) {
	countBefore, err := b.controller.count(ctx)
	if err != nil {
		return nil, err
	}
	sinceLoad, err := b.server.meter(ctx)
	if err != nil {
		return nil, err
	}
	cpuBefore, err := b.controller.cpu()
	return func() (cost, error) {
		cpu, err := b.controller.cpu()
		if err != nil {
			return cost{}, err
		}
		l, err := sinceLoad()
		if err != nil {
			return cost{}, err
		}
		count, err := b.controller.count(ctx)
		return cost{cpu: cpu - cpuBefore, count: count.since(countBefore), load: l}, err
	}, err
}

// quiet waits until the controller has nothing to do.
func (b *bench) quiet(ctx context.Context, patience time.Duration) error {
	return testenv.Until(ctx, patience, "the controller is at rest", func() error {
		c, err := b.controller.count(ctx)
		if err == nil && c.waiting+c.active > 0 {
			err = fmt.Errorf("%v pools wait", c.waiting+c.active)
		}
		return err
	})
}

// patience is the time limit for all pools, on a machine with other load.
func (b *bench) patience() time.Duration {
	return 10*time.Minute + time.Duration(b.pools)*300*time.Millisecond
}

// create makes all pools at once, and waits until each has both Secrets.
func (b *bench) create(ctx context.Context) error {
	wait := b.server.profile(ctx, b.profiles, "create", b.pools)
	since, err := b.meter(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	err = each(ctx, b.pools, func(ctx context.Context, i int) error {
		return b.client.Create(ctx, machineDeployment(poolName(i), i, profileOf(i)))
	})
	if err != nil {
		return err
	}
	var last time.Time
	err = testenv.Until(ctx, b.patience(), "every pool has its Secrets", func() error {
		moved, at, err := b.secrets.at(b.release(), poolNames(b.pools))
		if err != nil {
			return err
		}
		rest, atRest, err := b.secrets.at(stillRelease, poolNames(b.pools))
		if last = at; atRest.After(at) {
			last = atRest
		}
		if err == nil && moved+rest < 2*b.pools {
			err = fmt.Errorf("%d of %d have their objects", moved+rest, 2*b.pools)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := b.quiet(ctx, 5*time.Minute); err != nil {
		return err
	}
	c, err := since()
	if err != nil {
		return err
	}
	if err := wait(); err != nil {
		return err
	}
	// This program created the MachineDeployments.
	c.load.requests["post machinedeployments"] -= float64(b.pools)
	b.created = phase{pools: b.pools, took: last.Sub(begin), load: c.load}
	now, peak, err := b.controller.memory()
	if err != nil {
		return err
	}
	n := float64(b.pools)
	b.add(fmt.Sprintf("%d pools at once, %s tokens", b.pools, b.token), fmt.Sprintf("%s, %.0f pools/s", short(b.created.took), b.created.rate()), "", true)
	perPool := c.cpu / time.Duration(b.pools)
	b.add("  controller's CPU per pool", short(perPool), "", true)
	b.ratio("  relative to operating-system-manager's on another machine", float64(perPool)/float64(workPerPool), b.bar(0.9, 0.65), atMost)
	b.add("  CPU per pool: API server, etcd", short(c.load.apiserver/time.Duration(b.pools))+", "+short(c.load.etcd/time.Duration(b.pools)), "", true)
	most := b.bar(10, 6)
	b.addRequests(c.load, b.pools, most)
	b.add("  reconciles per pool", fmt.Sprintf("%.2f", c.count.reconciled/n), "", true)
	b.add("  failed requests, failed reconciles", fmt.Sprintf("%.0f, %.0f", c.count.failed, c.count.errors), "0 reconciles", c.count.errors == 0)
	mostMemory := int64(1.1 * peakMemory)
	if b.pools > 1000 {
		mostMemory = 700 << 20
	}
	b.add("  resident memory, most of it", fmt.Sprintf("%d MiB, %d MiB", now>>20, peak>>20), fmt.Sprintf("%d MiB", mostMemory>>20), peak <= mostMemory)
	return nil
}

// one measures the latency of a new pool on an idle controller.
func (b *bench) one(ctx context.Context) error {
	since, err := b.meter(ctx)
	if err != nil {
		return err
	}
	b.oneLatency, err = b.latencies(ctx, func(ctx context.Context, pool string, i int) error {
		return b.client.Create(ctx, machineDeployment(pool, i, "osp-"+kinds[i%len(kinds)].system+still))
	})
	if err != nil {
		return err
	}
	c, err := since()
	if err != nil {
		return err
	}
	b.add(fmt.Sprintf("one pool with %d behind it, p50 and p95", b.pools),
		fmt.Sprintf("%s, %s, %.1f writes", short(percentile(b.oneLatency, 50)), short(percentile(b.oneLatency, 95)), c.count.writes()/float64(len(b.oneLatency))), "", true)
	return nil
}

// latencies makes pools one after the other, and measures the time until both user-data Secrets
// of each exist.
func (b *bench) latencies(ctx context.Context, request func(ctx context.Context, pool string, i int) error) ([]time.Duration, error) {
	const samples = 40
	var out []time.Duration
	for i := range samples {
		pool := fmt.Sprintf("one-%02d", i)
		drain(b.secrets.writtenPools)
		begin := time.Now()
		if err := request(ctx, pool, i); err != nil {
			return nil, err
		}
		for missing := []string{secretName(pool, provisioning), secretName(pool, bootstrap)}; len(missing) > 0; {
			select {
			case name := <-b.secrets.writtenPools:
				missing = slices.DeleteFunc(missing, func(s string) bool { return s == name })
			case <-time.After(time.Minute):
				return nil, fmt.Errorf("pool %s has no %v", pool, missing)
			}
		}
		out = append(out, time.Since(begin))
		if err := sleep(ctx, 100*time.Millisecond); err != nil { // until it is at rest again
			return nil, err
		}
	}
	return out, nil
}

func drain(news chan string) {
	for {
		select {
		case <-news:
		default:
			return
		}
	}
}

// moved are the pools that follow a push.
func (b *bench) moved() (out []string) {
	for i := range b.pools {
		if profileOf(i) == "osp-"+kinds[i%len(kinds)].system {
			out = append(out, poolName(i))
		}
	}
	return out
}

// rotate pushes a new version of the profiles of two pools in five.
func (b *bench) rotate(ctx context.Context) error {
	moved := b.moved()
	wait := b.server.profile(ctx, b.profiles, "rotate", len(moved))
	since, err := b.meter(ctx)
	if err != nil {
		return err
	}
	gone := b.secrets.deletions()
	if err := b.push(ctx); err != nil {
		return err
	}
	begin := time.Now()
	var last time.Time
	err = testenv.Until(ctx, b.patience(), "every pool follows the push", func() error {
		n, at, err := b.secrets.at(b.release(), moved)
		last = at
		if err == nil && n < 2*len(moved) {
			err = fmt.Errorf("%d of %d do", n, 2*len(moved))
		}
		return err
	})
	if err != nil {
		return err
	}
	took := last.Sub(begin)
	if err := b.quiet(ctx, 5*time.Minute); err != nil {
		return err
	}
	c, err := since()
	if err != nil {
		return err
	}
	if err := wait(); err != nil {
		return err
	}
	n := len(moved)
	b.rotated = phase{pools: n, took: took, load: c.load}
	perPool := func(d time.Duration) string { return short(d / time.Duration(n)) }
	b.add(fmt.Sprintf("%d pools rotated by one push", n), short(took), "", true)
	b.add("  Secrets that were absent", fmt.Sprint(b.secrets.deletions()-gone), "0", b.secrets.deletions() == gone)
	b.add("  CPU per pool: controller, API server, etcd", perPool(c.cpu)+", "+perPool(c.load.apiserver)+", "+perPool(c.load.etcd), "", true)
	b.addRequests(c.load, n, 6)
	b.add("  reconciles per pool", fmt.Sprintf("%.2f", c.count.reconciled/float64(n)), "", true)
	return nil
}

// measureIdle watches a controller that has nothing to do.
func (b *bench) measureIdle(ctx context.Context) error {
	if err := b.quiet(ctx, 5*time.Minute); err != nil {
		return err
	}
	if err := sleep(ctx, 15*time.Second); err != nil { // what was just made settles
		return err
	}
	since, err := b.meter(ctx)
	if err != nil {
		return err
	}
	if err := sleep(ctx, b.idleTime); err != nil {
		return err
	}
	c, err := since()
	if err != nil {
		return err
	}
	now, _, err := b.controller.memory()
	if err != nil {
		return err
	}
	minutes := b.idleTime.Minutes()
	perMinute := time.Duration(float64(c.cpu) / minutes)
	b.add(fmt.Sprintf("at rest for %s: CPU per minute", b.idleTime), short(perMinute), "200ms", perMinute <= 200*time.Millisecond)
	b.add("  requests per minute", fmt.Sprintf("%.1f writes, %.1f reads and watches", c.count.writes()/minutes, c.count.requests["GET"]/minutes), "0 writes", c.count.writes() == 0)
	b.add("  resident memory", fmt.Sprintf("%d MiB", now>>20), "", true)
	return b.scrape(ctx)
}

// scrape says what it costs the controller that its metrics are read.
func (b *bench) scrape(ctx context.Context) error {
	const scrapes = 10
	before, err := b.controller.cpu()
	if err != nil {
		return err
	}
	for range scrapes {
		if _, err := b.controller.count(ctx); err != nil {
			return err
		}
	}
	after, err := b.controller.cpu()
	if err != nil {
		return err
	}
	b.add("  CPU for a scrape of its metrics", short((after-before)/scrapes), "", true)
	return nil
}

// restart stops the controller, and starts it again.
func (b *bench) restart(ctx context.Context) error {
	b.controller.Stop()
	begin := time.Now()
	if err := b.start(ctx); err != nil {
		return err
	}
	err := testenv.Until(ctx, 10*time.Minute, "every pool was reconciled again", func() error {
		c, err := b.controller.count(ctx)
		if err == nil && (c.reconciled < float64(b.pools) || c.waiting+c.active > 0) {
			err = fmt.Errorf("%v of them were, %v wait", c.reconciled, c.waiting+c.active)
		}
		return err
	})
	if err != nil {
		return err
	}
	took := time.Since(begin)
	c, err := b.controller.count(ctx)
	if err != nil {
		return err
	}
	cpu, err := b.controller.cpu()
	if err != nil {
		return err
	}
	now, peak, err := b.controller.memory()
	if err != nil {
		return err
	}
	b.add("restart until every pool was reconciled", fmt.Sprintf("%s, CPU %s", short(took), short(cpu)), "1m0s", took <= time.Minute)
	b.add("  requests", fmt.Sprintf("%.0f writes, %.0f reads and watches", c.writes(), c.requests["GET"]), "0 writes", c.writes() == 0)
	b.add("  resident memory, most of it", fmt.Sprintf("%d MiB, %d MiB", now>>20, peak>>20), "", true)
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func percentile(all []time.Duration, p int) time.Duration {
	all = slices.Clone(all)
	slices.Sort(all)
	return all[min(len(all)-1, len(all)*p/100)]
}

func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	default:
		return d.Round(10 * time.Microsecond).String()
	}
}
