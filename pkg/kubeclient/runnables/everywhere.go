package runnables

import "context"

// Everywhere runs in every replica of a manager, not only in the one that leads.
type Everywhere func(ctx context.Context) error

func (e Everywhere) Start(ctx context.Context) error { return e(ctx) }
func (e Everywhere) NeedLeaderElection() bool        { return false }
