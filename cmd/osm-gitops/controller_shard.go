package main

import (
	"github.com/spf13/pflag"

	"github.com/osm-gitops/osm-gitops/pkg/reconcile/shard"
)

// shardFlags say which objects are handled where several controllers share a cluster.
type shardFlags struct {
	shard.Shard // what validate makes of selector
	selector    string
}

func (s *shardFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&s.selector, "watch-label-selector", "", "label selector of the ProfileSources and MachineDeployments that this controller handles, where several share the work in a cluster; empty: all")
}

func (s *shardFlags) validate(bad func(flag, format string, args ...any)) {
	var err error
	if s.Shard, err = shard.Parse(s.selector); err != nil {
		bad("watch-label-selector", "%w", err)
	}
}
