<?php
// Loads the classes of a library and of its tests from its archive, as Composer would. SUITE_CLASSES is
// PREFIX=FOLDER,…; what the library needs comes from Debian's packages.
foreach (['Predis/Autoloader.php', 'Psr/Log/autoload.php', 'org/bovigo/vfs/autoload.php'] as $file) {
    if (is_file("/usr/share/php/$file")) {
        require_once "/usr/share/php/$file";
    }
}
if (class_exists('Predis\Autoloader', false)) {
    Predis\Autoloader::register();
}
spl_autoload_register(function (string $class): void {
    foreach (explode(',', getenv('SUITE_CLASSES')) as $pair) {
        [$prefix, $folder] = explode('=', $pair);
        $file = $folder.'/'.strtr(substr($class, strlen($prefix)), '\\', '/').'.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require_once $file;

            return;
        }
    }
});
