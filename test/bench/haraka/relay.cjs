// A plugin of Haraka: what comes is relayed, to the sink. It is copied beside a configuration; haraka.ts fills in @...@.
const port = Number('@SINKPORT@');

exports.hook_connect = (next, connection) => {
  connection.relaying = true;
  next();
};

exports.hook_get_mx = (next, _, domain) => {
  next(OK, { priority: 0, exchange: /\.tls\d+\.test$/.test(domain) ? '@TLSHOST@' : '@PLAINHOST@', port });
};
