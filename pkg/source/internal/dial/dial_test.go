package dial

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestNameServersThatAreAway(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for name, c := range map[string]struct {
		server net.PacketConn
		says   string
	}{
		"silent": {silent, "does not answer"},
		"gone":   {gone, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, "udp", c.server.LocalAddr().String())
				if err == nil {
					err = conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
				}
				return ownDeadline{conn}, err
			}}
			said := map[string]bool{}
			for range 2 {
				_, err := resolver.LookupIPAddr(t.Context(), "git.example.com.")
				said[DescribeError(err)] = true
				if err == nil || !strings.Contains(err.Error(), "->") {
					t.Errorf("the resolver says %v: the test shows nothing", err)
				}
			}
			if want := fmt.Sprintf("resolving %q: the name server %s", "git.example.com.", c.says); len(said) != 1 || !said[want] {
				t.Errorf("got %v, want %q", said, want)
			}
		})
	}
}

// ownDeadline is a connection whose end comes before that of the resolver.
type ownDeadline struct{ net.Conn }

func (ownDeadline) SetDeadline(time.Time) error { return nil }

// security.md 9: private networks are where Git servers are.
func TestPrivateAddresses(t *testing.T) {
	for _, private := range []string{"10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "fd00::1", "8.8.8.8",
		"64:ff9b::808:808", "64:ff9b:1::808:808", "64:ff9b:1:808:8:800::", "64:ff9b:1:108:8:808::", "64:ff9b:1:1:8:808:800::", "2002:808:808::1", "2002:a00:1::1", "::8.8.8.8", "2001:db8::1"} {
		if err := checkAddress(netip.MustParseAddr(private), nil); err != nil {
			t.Errorf("%s: %v", private, err)
		}
	}
}
