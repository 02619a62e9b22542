// Package archive keeps the proof of a sale in SQL when Redis has forgotten it.
//
// # The story
//
// Redis sells. Its ledger names who took which unit, but Redis replicates
// behind its own back and its memory is dear. So a Copier walks the ledger of
// each sale, periodically and once more the moment a sale is sold out or over,
// and saves it here in slices of inventory.ArchiveSlice. Only after the end, a
// retry horizon and a pass that provably missed nothing are the keys deleted;
// from then on Settle confirms, releases and returns in SQL alone.
//
// # What holds
//
// States only move forward. reserved → confirmed | released | expired,
// expired → confirmed | refund_due, confirmed → returned; cancelled is a
// tombstone. A copy may be stale, come twice, or come from two replicas at
// once: what is stored and as far or further on stays. So every act may be
// repeated after any error.
//
// sold ≤ total. A sale is one row; sold counts the units of its confirmed
// reservations and moves in the transaction that stores them, by
//
//	UPDATE sales SET sold = sold + q WHERE id = … AND sold + q <= total
//
// No row means inventory.ErrOversold and nothing is stored. It holds whatever
// Redis says, also after a failover that forgot. Writers of one sale queue on
// that row (SQLite: on the file), and always take it before any reservation,
// so they cannot lock each other out.
//
// A contradiction is loud. No history holds "released" and "confirmed" of one
// reservation; if Redis forgot in a failover, both may turn up. The archived one
// stays, the log names both, and the sale cannot be deleted until people have
// looked.
//
// # A pass of the Copier
//
// It reads the level, walks the ledger and saves slice by slice; at most two
// slices are in memory. It always begins at the beginning: what is stored
// already is only read, so a pass that broke anywhere is made whole by the next.
// A walk has no order, so a unit's second buyer may come before the news that
// the first returned it. When a slice is refused as oversold, the returned ones
// are saved first and the slice is tried once more; if it is still too much, all
// but the reservations beyond the total are stored, and those are named.
//
// Replicas share the work by a few leases, each for an interval and a part of
// the sales. Two that copy one sale at once only do the work twice.
//
// # Deletion
//
// Past end + horizon, by the clock of Redis, the Copier asks for a Cleanup when
// a pass is complete: the ledger's Seq did not move during it, nothing is
// reserved or on loan, and the archive's sold units are the ledger's. Then every
// reservation of the ledger is compared with the archived one, and none in the
// archive may be open. Cleanup shuts the buckets first and copies once more, as
// a payment may come in between. A sale that
// cannot be proved stays in Redis, is logged as an error, and is tried again
// after 1, 2, 4 … 64 intervals.
//
// # Which database
//
// "sqlite:PATH" for one host: a file in WAL mode, readable only by its owner,
// with one writer at a time; several processes of that host may share it, a
// network folder is not for it. "postgres://…" for several hosts; give it a
// database of its own or a search_path. Set synchronous_commit as strong as
// "sold" shall be: off may forget an acknowledged slice, and Redis may have
// deleted it by then.
//
// Every DB method is safe for concurrent use. The tables are made and migrated
// when the archive is opened; an archive of a newer weir is left alone.
package archive
