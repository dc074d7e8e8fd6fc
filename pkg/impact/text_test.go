package impact

import "testing"

func TestVerdict(t *testing.T) {
	profiles := []ProfileChange{{Name: "osp-a"}}
	pools := []Change{{Pools: []Affected{{}}}}
	for want, r := range map[string]*Report{
		"No change":                  {Pools: 3},
		"Changes 1 profile, no pool": {Pools: 3, Profiles: profiles},
		"Changes 1 of 3 pools; running machines stay; 2 do not change": {Pools: 3, Profiles: profiles, Changes: pools},
		"Changes 1 profile, no pool; 1 cannot have what they request":  {Pools: 3, Profiles: profiles, Rejections: []PoolRejection{{Before: true, Pools: []string{"a"}}}},
		"Cannot be merged: 1 pool without what they request; changes 0 of 3 pools; 1 cannot have what they request; 2 do not change": {
			Pools: 3, Profiles: profiles, Rejections: []PoolRejection{{Pools: []string{"a"}}},
		},
	} {
		if got := r.summarize(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
