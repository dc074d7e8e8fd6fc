package source

import "time"

// What one response may cost.
const (
	// defaultTimeout bounds each phase of a fetch: dial, TLS, refs, pack.
	defaultTimeout = 60 * time.Second
	maxRefsBytes   = 32 << 20 // 32 MiB: some 400,000 references
	maxHeaderBytes = 64 << 10 // 64 KiB of HTTP header
)
