package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcomes of boots.
const (
	BootJoined  = "Joined"  // the machine has a Node
	BootFailing = "Failing" // a machine reported a failure for the first time in a boot
	BootLost    = "Lost"    // the machine was deleted before it had a Node
)

// BootCounted counts the outcome of a boot of a pool, "namespace/name", with a version of its profile.
func (m *Metrics) BootCounted(pool, version, outcome string) {
	m.count(boots, pool, version, outcome)
}

// BootMeasured records the time until a machine had a Node.
func (m *Metrics) BootMeasured(d time.Duration) {
	m.observe(bootSeconds, d)
}

// ForgetBoots drops the counts of a pool that is gone.
func (m *Metrics) ForgetBoots(pool string) {
	if m != nil {
		m.counters[boots.Name].DeletePartialMatch(prometheus.Labels{"pool": pool})
	}
}
