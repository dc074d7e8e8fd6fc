package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

type bench struct {
	table
	dir    string
	served string // the repository the server gives out
	server *server
	url    string
	next   int // the number of the next commit
	runs   int

	process *followerProcess
	clone   string // of the git command
}

func (b *bench) folder(name string) string {
	b.runs++
	return filepath.Join(b.dir, fmt.Sprintf("%s-%d", name, b.runs))
}

// first compares the first sync with git clone, taking turns.
func (b *bench) first(ctx context.Context) error {
	var ours, theirs []cost
	for range 3 {
		b.clone = b.folder("clone")
		c, err := run(ctx, "clone", "--quiet", "--bare", b.url, b.clone)
		if err != nil {
			return err
		}
		theirs = append(theirs, c)
		if b.process != nil {
			if err := b.process.end(); err != nil {
				return err
			}
		}
		if b.process, err = follow(ctx, b.folder("mirrors"), repositoryAccess{url: b.url}); err != nil {
			return err
		}
		if c, err = b.process.fetch(1, ""); err != nil {
			return err
		}
		if c.Steps != commits/5 {
			return fmt.Errorf("the line has %d steps, not %d", c.Steps, commits/5)
		}
		if want := profiles + commits/5 - 1; c.Versions != want {
			return fmt.Errorf("the catalogue has %d versions, not %d", c.Versions, want)
		}
		ours = append(ours, c)
	}
	git, us := median(theirs), median(ours)
	b.add(fmt.Sprintf("git clone --bare, %d commits", commits), git, "", "", true)
	ratio := float64(us.Wall) / float64(git.Wall)
	b.add("first sync, its history index included", us, fmt.Sprintf("%.1f (CPU %.1f)", ratio, float64(us.CPU)/float64(git.CPU)), "6.0", ratio <= 6)
	var most int64
	for _, c := range ours {
		most = max(most, c.Peak)
	}
	b.add(fmt.Sprintf("  peak memory %d MiB", most>>20), cost{}, "", "500 MiB", most <= 500<<20)
	return nil
}

// unchanged polls a remote that does not change.
func (b *bench) unchanged(ctx context.Context) error {
	var theirs []cost
	for range 5 {
		c, err := run(ctx, "ls-remote", b.url)
		if err != nil {
			return err
		}
		theirs = append(theirs, c)
	}
	git := median(theirs)
	const polls = 1000
	before, err := b.process.fetch(10, "")
	if err != nil {
		return err
	}
	asked, packs := b.server.refRequests.Load(), b.server.packs.Load()
	c, err := b.process.fetch(polls, "")
	if err != nil {
		return err
	}
	asked, packs = b.server.refRequests.Load()-asked, b.server.packs.Load()-packs
	each := cost{Wall: c.Wall / polls, CPU: c.CPU / polls}
	b.add("git ls-remote", git, "", "", true)
	b.add("unchanged remote, mean of 1,000 polls", each, fmt.Sprintf("%.2f (CPU %.2f)", float64(each.Wall)/float64(git.Wall), float64(each.CPU)/float64(git.CPU)), "5ms of CPU", each.CPU <= 5*time.Millisecond)
	b.add(fmt.Sprintf("  requests: %d for references, %d for packs", asked, packs), cost{}, "", "1000, 0", asked == polls && packs == 0)
	grown := c.Heap - before.Heap
	b.add(fmt.Sprintf("  live memory grew by %d KiB", grown>>10), cost{}, "", "256 KiB", grown <= 256<<10)
	return nil
}

// unchangedOverSSH does the same over SSH, with a connection and a handshake per poll, like the
// git command.
func (b *bench) unchangedOverSSH(ctx context.Context) (err error) {
	at, end, err := serveSSH(filepath.Dir(b.served), b.folder("ssh"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	at.url += "/repo.git"
	var theirs []cost
	for range 5 {
		cmd := gitCommand(ctx, "ls-remote", at.url)
		cmd.Env = append(cmd.Env, fmt.Sprintf("GIT_SSH_COMMAND=ssh -F /dev/null -i %s -o IdentitiesOnly=yes -o UserKnownHostsFile=%s", at.identity, at.knownHosts))
		c, err := timed(cmd)
		if err != nil {
			return err
		}
		theirs = append(theirs, c)
	}
	f, err := follow(ctx, b.folder("over-ssh"), at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.end()) }()
	if _, err := f.fetch(10, ""); err != nil {
		return err
	}
	const polls = 200
	c, err := f.fetch(polls, "")
	if err != nil {
		return err
	}
	git, each := median(theirs), cost{Wall: c.Wall / polls, CPU: c.CPU / polls}
	b.add("git ls-remote over ssh", git, "", "", true)
	b.add(fmt.Sprintf("unchanged remote over ssh, mean of %d polls", polls), each, fmt.Sprintf("%.2f (CPU %.2f)", float64(each.Wall)/float64(git.Wall), float64(each.CPU)/float64(git.CPU)), "5ms of CPU", each.CPU <= 5*time.Millisecond)
	return nil
}

// push adds the next commit that edits a profile, and returns the file.
func (b *bench) push(ctx context.Context) (string, error) {
	i := b.next
	b.next += 5
	if err := importCommits(ctx, b.served, "refs/heads/main^0", i, i+1); err != nil {
		return "", err
	}
	return profilePath(i / 5 * 7 % profiles), nil
}

// onePush fetches one commit that touches one file, by turns.
func (b *bench) onePush(ctx context.Context) error {
	var ours, theirs []cost
	for range 9 {
		path, err := b.push(ctx)
		if err != nil {
			return err
		}
		c, err := run(ctx, "-C", b.clone, "fetch", "--quiet", "origin", "+refs/heads/*:refs/heads/*")
		if err != nil {
			return err
		}
		theirs = append(theirs, c)
		if c, err = b.process.fetch(1, path); err != nil {
			return err
		}
		head, err := gitCommand(ctx, "-C", b.served, "rev-parse", "main").Output()
		if err != nil {
			return err
		}
		if c.Change+"\n" != string(head) {
			return fmt.Errorf("the change of %s is %s, not %s", path, c.Change, head)
		}
		ours = append(ours, c)
	}
	git, us := median(theirs), median(ours)
	b.add("git fetch of one commit", git, "", "", true)
	ratio := float64(us.Wall) / float64(git.Wall)
	b.add("sync of one commit, with provenance", us, fmt.Sprintf("%.2f (CPU %.2f)", ratio, float64(us.CPU)/float64(git.CPU)), "1.50", ratio <= 1.5)
	return nil
}

// manySources pushes a commit; one source is notified, and 99 others receive it from its fetch.
func (b *bench) manySources(ctx context.Context) error {
	if _, err := b.push(ctx); err != nil {
		return err
	}
	asked, packs := b.server.refRequests.Load(), b.server.packs.Load()
	one, err := b.process.fetch(1, "")
	if err != nil {
		return err
	}
	const others = 99
	c, err := b.process.share(others)
	if err != nil {
		return err
	}
	asked, packs = b.server.refRequests.Load()-asked, b.server.packs.Load()-packs
	if c.Steps != one.Steps {
		return fmt.Errorf("the others see %d steps, not %d", c.Steps, one.Steps)
	}
	b.add("100 sources of one repository, after a push", cost{Wall: one.Wall + c.Wall, CPU: one.CPU + c.CPU}, "", "", true)
	b.add(fmt.Sprintf("  requests: %d for references, %d for packs", asked, packs), cost{}, "", "1, 1", asked == 1 && packs == 1)
	return nil
}

// manyPushes looks at the packs of a mirror that is pushed to often.
func (b *bench) manyPushes(ctx context.Context) error {
	const pushes = 110
	most, slowest := 0, cost{}
	for range pushes {
		if _, err := b.push(ctx); err != nil {
			return err
		}
		c, err := b.process.fetch(1, "")
		if err != nil {
			return err
		}
		if c.Wall > slowest.Wall {
			slowest = c
		}
		packs, err := filepath.Glob(filepath.Join(b.dir, "mirrors-*", "*", "objects", "pack", "*.pack"))
		if err != nil {
			return err
		}
		most = max(most, len(packs)-2) // two mirrors of first have one each
	}
	b.add(fmt.Sprintf("%d pushes, the slowest sync of them", pushes), slowest, "", "", true)
	b.add(fmt.Sprintf("  at most %d packs at a time", most), cost{}, "", "50", most <= 50)
	return nil
}

// median is the run in the middle by its wall time.
func median(costs []cost) cost {
	slices.SortFunc(costs, func(a, b cost) int { return int(a.Wall - b.Wall) })
	return costs[len(costs)/2]
}
