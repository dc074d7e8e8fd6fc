package source

import (
	"net"
	"net/netip"
	"time"
)

// Dialer connects to addresses as Mirrors does: to loopback, link-local and
// metadata addresses only where allowed names them. It is for requests whose host
// stands in an object of the cluster (security.md 9).
func Dialer(timeout time.Duration, allowed []netip.Prefix) *net.Dialer {
	return &(&Mirrors{AllowedCIDRs: allowed}).dialer(target{Remote: Remote{Timeout: timeout}}).direct
}
