-- The billing close of a tenant, with a fence. The lock is tenant_ID:billing-close:PERIOD, such as
-- tenant_123:billing-close:2026-04. Both tables that the close writes check its token. examples/billing_close.py runs it.
CREATE TABLE usage (
    tenant_id text NOT NULL,
    period text NOT NULL,
    cents bigint NOT NULL
);

CREATE TABLE invoices (
    tenant_id text,
    period text,
    cents bigint NOT NULL,
    issued_by text NOT NULL,
    PRIMARY KEY (tenant_id, period)
);

CREATE TABLE tenant_billing_close (
    tenant_id text,
    period text,
    status text NOT NULL CHECK (status IN ('OPEN', 'CLOSED')),
    closed_by text,
    PRIMARY KEY (tenant_id, period)
);

SELECT holdfast.guard('invoices', 'tenant_%s:billing-close:%s', '{tenant_id,period}');
SELECT holdfast.guard('tenant_billing_close', 'tenant_%s:billing-close:%s', '{tenant_id,period}');
