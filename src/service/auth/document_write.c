/* The policy in force as a document, see document.h. */
#include "service/auth/document.h"

struct document_writer {
    const struct policy *p;
    struct json_writer *w;
};

static void put_tenant(void *ctx, const struct tenant_view *tenant)
{
    struct json_writer *w = ((struct document_writer *)ctx)->w;
    json_write_open(w, '{');
    json_put_string(w, "name", tenant->name);
    json_put_u64(w, "number", tenant->number);
    json_put_open(w, "quotas", '{');
#define X(name) json_put_u64(w, #name, tenant->quotas.name);
    QUOTA_LIST(X)
#undef X
    json_write_close(w);
    json_write_close(w);
}

static struct slice tenant_name(const struct policy *p, uint32_t number)
{
    struct tenant_view tenant = {.name = slice_of("*")};
    if (number != TENANT_ALL) {
        (void)policy_tenant(p, number, &tenant);
    }
    return tenant.name;
}

void document_put_grant(const struct policy *p, const struct policy_grant_view *grant,
                        struct json_writer *w)
{
    json_write_open(w, '{');
    json_put_string(w, "tenant", tenant_name(p, grant->tenant));
    json_put_string(w, "prefix", grant->prefix.len == 0 ? slice_of("*") : grant->prefix);
    json_put_open(w, "rights", '[');
    for (unsigned right = RIGHT_LOCK; right <= RIGHT_ADMIN; right <<= 1) {
        if ((grant->rights & right) != 0) {
            json_write_string(w, slice_of(right_name((enum right)right)));
        }
    }
    json_write_close(w);
    json_write_close(w);
}

static void put_principal(void *ctx, const struct principal_view *principal)
{
    struct document_writer *d = ctx;
    struct json_writer *w = d->w;
    json_write_open(w, '{');
    json_put_string(w, "tenant", tenant_name(d->p, principal->tenant));
    json_put_string(w, "name", principal->name);
    json_put_u64(w, "number", principal->number);
    json_put_string(w, "description", principal->description);
    json_put_open(w, "grants", '[');
    for (uint32_t i = 0; i < principal->grants; i++) {
        struct policy_grant_view grant;
        if (policy_grant_at(d->p, principal->number, i, &grant)) {
            document_put_grant(d->p, &grant, w);
        }
    }
    json_write_close(w);
    json_write_close(w);
}

static void put_serial(void *ctx, struct slice serial)
{
    json_write_string(((struct document_writer *)ctx)->w, serial);
}

void document_write(const struct policy *p, struct json_writer *w)
{
    struct document_writer d = {p, w};
    json_put_u64(w, "version", policy_version(p));
    json_put_open(w, "tenants", '[');
    policy_each_tenant(p, put_tenant, &d);
    json_write_close(w);
    json_put_open(w, "principals", '[');
    policy_each_principal(p, put_principal, &d);
    json_write_close(w);
    json_put_open(w, "barred_serials", '[');
    policy_each_serial(p, put_serial, &d);
    json_write_close(w);
}
