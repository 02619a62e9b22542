package archive

import (
	"context"
	"database/sql"
	"strings"
)

// dialect is all in which the two databases differ. Statements are written
// with $1, $2, … .
type dialect struct {
	place     string // for people: what is opened, without secrets
	json      string // column type of a plan
	isolation sql.IsolationLevel
	lockRow   string                               // behind a SELECT: nobody else changes the row until the end
	migrating string                               // run first in a migration, so that only one process does it
	prepare   func(context.Context, *sql.DB) error // makes the first connection; nil: nothing special
	numbered  string                               // what stands before the number of a parameter
}

// text is the statement as this database reads it.
func (d dialect) text(statement string) string {
	return strings.ReplaceAll(statement, "$", d.numbered)
}
