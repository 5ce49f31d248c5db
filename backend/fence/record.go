package fence

import "github.com/burstlet/burstlet/backend/class"

// Record is what a remote keeps of a node's leaders. The zero value is no record.
type Record struct {
	// Number counts them.
	Number uint64 `json:"number"`
	// Holder is the last.
	Holder string `json:"holder"`
}

// Check is nil if this leader is the last. Errors: Superseded.
func (r Record) Check(holder string) error {
	switch {
	case r.Holder == "":
		return class.Errorf(class.ErrSuperseded, "the remote no longer knows leader %s of the node: its record is gone",
			holder)
	case r.Holder != holder:
		return class.Errorf(class.ErrSuperseded, "the remote takes changes of leader %s, who has taken the node, not of %s",
			r.Holder, holder)
	}
	return nil
}

// Change is what a Request does to a record.
type Change string

// The changes.
const (
	// Look does nothing.
	Look Change = "look"
	// Take makes the Holder the last leader.
	Take Change = "take"
	// Drop removes the record.
	Drop Change = "drop"
)

// Request asks for a record, and to change it first.
type Request struct {
	Change Change
	// After is the number of the leader that is followed, or of the record that is
	// dropped: another record stays as it is. 0: there is none.
	After uint64
	// Holder is who asks.
	Holder string
}

// Apply returns the record as it is to be.
func (q Request) Apply(r Record) Record {
	switch {
	case r.Number != q.After:
		return r
	case q.Change == Take:
		return Record{Number: r.Number + 1, Holder: q.Holder}
	case q.Change == Drop && r.Holder == q.Holder:
		return Record{}
	default:
		return r
	}
}
