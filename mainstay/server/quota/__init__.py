"""ResourceQuotas and ZoneQuotas: charged in the transaction of the write that uses them."""
