package transport

import "time"

// Limits on one response.
const (
	// DefaultTimeout bounds each phase of a fetch: dial, TLS, refs, pack.
	DefaultTimeout = 60 * time.Second
	MaxRefsBytes   = 32 << 20 // 32 MiB: some 400,000 references
)
