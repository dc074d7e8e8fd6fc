package verify

import "testing"

// The more severe of two checks of one thing counts; the notes of two agreeing checks are
// joined.
func TestChecksOfOneThing(t *testing.T) {
	for _, c := range []struct{ first, second, want Result }{
		{Agrees, Agrees, Agrees},
		{Agrees, Differs, Differs},
		{Differs, Agrees, Differs},
		{Agrees, Unproven, Unproven},
		{Unproven, Agrees, Unproven},
		{Unproven, Differs, Differs},
		{Differs, Unproven, Differs},
		{Skipped, Agrees, Agrees},
		{Agrees, Skipped, Agrees},
		{Differs, Skipped, Differs},
	} {
		var r Report
		r.addOrMerge(Check{Thing: ThingRecord, Name: "a", Result: c.first, Note: "one"})
		r.addOrMerge(Check{Thing: ThingRecord, Name: "a", Result: c.second, Note: "two"})
		if len(r.Checks) != 1 || r.Checks[0].Result != c.want || c.first == Agrees && c.second == Agrees && r.Checks[0].Note != "one; two" {
			t.Errorf("%s and %s: got %+v, want %s", c.first, c.second, r.Checks, c.want)
		}
		r.addOrMerge(Check{Thing: ThingRecord, Name: "b", Result: Agrees})
		r.addOrMerge(Check{Thing: ThingOSC, Name: "a", Result: Agrees})
		if len(r.Checks) != 3 {
			t.Errorf("checks of other things: got %+v", r.Checks)
		}
	}
}
